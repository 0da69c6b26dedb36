// Clip: min(max(x, low), high); with low > high the result is high. NaN stays NaN.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i) && c.rank(i) != 0 && !(c.rank(i) == 1 && c.shape(i)[0].is_const(1)))
      return invalid("a bound of clip must be a scalar").but_found(shape_text(c.shape(i)));
  PERI_TRY(infer_same(c));
  const std::vector<Dim>*x = c.elements(0), *low = c.known(1), *high = c.known(2);
  if (!x || !contains(kContentTypes, c.dtype(0)) || (c.has(1) && !low) || (c.has(2) && !high)) return Ok{};
  std::vector<Dim> out;
  for (Dim d : *x) {
    if (low) d = max(d, (*low)[0]);
    if (high) d = min(d, (*high)[0]);
    out.push_back(std::move(d));
  }
  c.set_content(0, std::move(out));
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const RefTensor* low = call.in.size() > 1 ? call.in[1] : nullptr;
  const RefTensor* high = call.in.size() > 2 ? call.in[2] : nullptr;
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const size_t at = static_cast<size_t>(p);
    copy_element(x, p, y, p);
    if (y.floating()) {
      if (low && y.f[at] < low->f[0]) y.f[at] = low->f[0];
      if (high && y.f[at] > high->f[0]) y.f[at] = high->f[0];
      if (low) y.radius[at] = std::max(y.radius[at], low->r(0));
      if (high) y.radius[at] = std::max(y.radius[at], high->r(0));
    } else {
      if (low && int_less(x.dtype, y.i[at], low->i[0])) y.i[at] = low->i[0];
      if (high && int_less(x.dtype, high->i[0], y.i[at])) y.i[at] = high->i[0];
    }
  }
  return Ok{};
}

Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 11) return Ok{};
  PERI_TRY(float_to_input(graph, node, "min", 1));
  return float_to_input(graph, node, "max", 2);
}
}  // namespace

extern const Entry clip_entry;
const Entry clip_entry{{
    {.name = "clip",
     .onnx = "Clip",
     .versions = {6, 11, 12, 13},
     .inputs = {{"x", kNumbers}, {"min", kNumbers, true, false, 0}, {"max", kNumbers, true, false, 0}},
     .outputs = {{"y"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull_same,
     .elementwise = true,
     .moves = true,
     .samples =
         {"graph { input x: f32[2,3]; const a: f32[] = [-0.5]; const b: f32[] = [0.5]; y = clip(x, a, b); output y }",
          "graph { input x: f32[2,3]; const b: f32[] = [0.5]; y = clip(x, _, b); output y }",
          "graph { input x: f16[5]; const a: f16[] = [0.0]; y = clip(x, a); output y }",
          "graph { input x: f32[2,3]; const a: f32[] = [0.5]; const b: f32[] = [-0.5]; y = clip(x, a, b); output y }",
          "graph { const x: u64[3] = [18446744073709551615, 5, 0]; const a: u64[] = [1]; const b: u64[] = [7]; y = "
          "clip(x, a, b); output y }",
          "graph { input x: i8[0]; y = clip(x); output y }",
          "graph { const x: f32[4] = [nan, inf, -inf, -0.0]; const a: f32[] = [-1.0]; const b: f32[] = [1.0]; y = "
          "clip(x, a, b); output y }"}},
}};
}  // namespace peri::ops
