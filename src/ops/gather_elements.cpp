// GatherElements: y[p] = data[p with its coordinate along `axis` replaced by indices[p]].
#include "ops/reference/elements.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  if (data.empty()) return invalid("data is a scalar").expecting("rank >= 1");
  if (indices.size() != data.size())
    return invalid("indices have a wrong rank")
        .expecting("the rank of data, " + std::to_string(data.size()))
        .but_found(shape_text(indices));
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", 0), data.size()));
  for (size_t d = 0; d < data.size(); ++d)
    if (static_cast<int64_t>(d) != axis && data[d].is_const() && indices[d].is_const() &&
        indices[d].value() > data[d].value())
      return invalid("indices reach beyond data")
          .expecting("at most " + data[d].text() + " along axis " + std::to_string(d))
          .but_found(indices[d].text());
  c.set(0, c.dtype(0), indices);
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &data = *call.in[0], &indices = *call.in[1];
  const std::vector<int64_t> steps = strides_of(data.dims);
  const size_t axis = static_cast<size_t>(*normalize_axis(call.node.i("axis", 0), data.dims.size()));
  std::vector<int64_t> at(data.dims.size());
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    unravel(p, indices.dims, at);
    PERI_ASSIGN(at[axis],
                checked_index(indices.i[static_cast<size_t>(p)], data.dims[axis], static_cast<int64_t>(axis)));
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d) from += at[d] * steps[d];
    copy_element(data, from, call.out[0], p);
  }
  return Ok{};
}

bool pull(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port == 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

std::vector<Dim> index_ends(const ir::Node& node) { return axis_end(node, 0); }

}  // namespace

extern const Entry gather_elements_entry;
const Entry gather_elements_entry{{
    {.name = "gather_elements",
     .onnx = "GatherElements",
     .versions = {11, 13},
     .inputs = {{"data", kMovable}, {"indices", kIndex, false, false, -1, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .index_ends = index_ends,
     .samples =
         {"graph { input data: f32[3,3]; const i: i64[2,3] = [1, 2, 0, 2, 0, -3]; y = gather_elements(data, i); output "
          "y }",
          "graph { input data: f32[2,2]; const i: i32[2,3] = [0, 0, 1, 1, 0, -1]; y = gather_elements(data, i) "
          "{axis=1}; output y }",
          "graph { input data: i64[4]; const i: i64[2] = [-1, -4]; y = gather_elements(data, i) {axis=-1}; output y }",
          "graph { input data: f32[3,4]; const i: i64[0,4] = []; y = gather_elements(data, i); output y }"}},
}};
}  // namespace peri::ops
