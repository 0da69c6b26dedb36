// Where: x where the condition holds, y elsewhere, all three broadcast.
#include "ops/reference/binary.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  PERI_ASSIGN(const Shape values, broadcast(c.shape(1), c.shape(2)));
  PERI_ASSIGN(Shape s, broadcast(c.shape(0), values));
  c.set(0, c.dtype(1), std::move(s));
  content_elementwise(c, [](const std::vector<Dim>& v) -> std::optional<Dim> {
    if (v[1] == v[2]) return v[1];
    if (v[0].is_const()) return v[0].is_const(0) ? v[2] : v[1];
    return v[2] + v[0] * (v[1] - v[2]);
  });
  return Ok{};
}
Status reference(RefCall& call) {
  RefTensor& out = call.out[0];
  const Under under_condition(call.in[0]->dims, out.dims), under_x(call.in[1]->dims, out.dims),
      under_y(call.in[2]->dims, out.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    if (call.in[0]->i[static_cast<size_t>(under_condition(p))])
      copy_element(*call.in[1], under_x(p), out, p);
    else
      copy_element(*call.in[2], under_y(p), out, p);
  }
  return Ok{};
}
}  // namespace

extern const Entry where_entry;
const Entry where_entry{{
    {.name = "where",
     .onnx = "Where",
     .versions = {9, 16},
     .inputs = {{"condition", kBools}, {"x", kMovable}, {"y", kMovable, false, false, 1}},
     .outputs = {{"z"}},
     .infer = infer,
     .reference = reference,
     .pull = pull_broadcast,
     .elementwise = true,
     .moves = true,
     .samples = {"graph { input c: bool[2,3]; input x: f32[2,3]; input y: f32[2,3]; z = where(c, x, y); output z }",
                 "graph { input c: bool[3]; input x: f32[2,1]; const y: f32[] = [-inf]; z = where(c, x, y); output z }",
                 "graph { input c: bool[2,1]; input x: i64[3]; input y: i64[1]; z = where(c, x, y); output z }",
                 "graph { const c: bool[2] = [1, 0]; const x: string[1] = [\"a\"]; const y: string[2] = [\"b\", "
                 "\"c\"]; z = where(c, x, y); output z }",
                 "graph { input c: bool[0]; input x: f32[1]; input y: f32[]; z = where(c, x, y); output z }"}},
}};
}  // namespace peri::ops
