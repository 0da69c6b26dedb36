// ScatterElements: a copy of data in which element indices[p] along `axis` is updated with updates[p]; formerly
// Scatter.
#include "ops/reference/scatter.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status upgrade_scatter(ir::Graph&, ir::Node& node, int) {
  node.op = "scatter_elements";
  return Ok{};
}
Status infer_scatter(InferContext&) {
  return unsupported("scatter is the older form of scatter_elements").advise("write scatter_elements");
}

Status infer(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1), &updates = c.shape(2);
  if (data.empty()) return invalid("data is a scalar").expecting("rank >= 1");
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", 0), data.size()));
  PERI_TRY(reduction_of(c.node));
  if (indices.size() != data.size())
    return invalid("indices have a wrong rank")
        .expecting("the rank of data, " + std::to_string(data.size()))
        .but_found(shape_text(indices));
  if (updates.size() != indices.size())
    return invalid("updates have a wrong rank").expecting(shape_text(indices)).but_found(shape_text(updates));
  for (size_t d = 0; d < data.size(); ++d) {
    if (indices[d].is_const() && updates[d].is_const() && !(indices[d] == updates[d]))
      return invalid("updates have a wrong shape").expecting(shape_text(indices)).but_found(shape_text(updates));
    if (static_cast<int64_t>(d) != axis && data[d].is_const() && indices[d].is_const() &&
        indices[d].value() > data[d].value())
      return invalid("indices reach beyond data")
          .expecting("at most " + data[d].text() + " along axis " + std::to_string(d))
          .but_found(indices[d].text());
  }
  c.set(0, c.dtype(0), data);
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &data = *call.in[0], &indices = *call.in[1], &updates = *call.in[2];
  PERI_ASSIGN(const Reduction how, reduction_of(call.node));
  Scatter scatter(how, data, call.out[0], call.u);
  const size_t axis = static_cast<size_t>(*normalize_axis(call.node.i("axis", 0), data.dims.size()));
  const std::vector<int64_t> steps = strides_of(data.dims);
  std::vector<int64_t> at(data.dims.size());
  for (int64_t p = 0; p < indices.numel(); ++p) {
    unravel(p, indices.dims, at);
    PERI_ASSIGN(at[axis],
                checked_index(indices.i[static_cast<size_t>(p)], data.dims[axis], static_cast<int64_t>(axis)));
    int64_t to = 0;
    for (size_t d = 0; d < at.size(); ++d) to += at[d] * steps[d];
    scatter.apply(to, updates, p);
  }
  scatter.finish();
  return Ok{};
}

bool pull(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

std::vector<Dim> index_ends(const ir::Node& node) { return axis_end(node, 0); }

}  // namespace

extern const Entry scatter_elements_entry;
const Entry scatter_elements_entry{{
    {.name = "scatter_elements",
     .onnx = "ScatterElements",
     .versions = {11, 13, 16, 18},
     .inputs = {{"data", kMovable},
                {"indices", kIndex, false, false, -1, Role::kIndex},
                {"updates", kMovable, false, false, 0}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "0"}, {"reduction", AttrKind::kString, false, "none"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .index_ends = index_ends,
     .samples = {"graph { input data: f32[3,4]; const i: i64[2,3] = [1, 0, 2, 0, 2, -2]; input u: f32[2,3]; y = "
                 "scatter_elements(data, i, u); output y }",
                 "graph { input data: f32[1,5]; const i: i64[1,3] = [1, 1, -4]; input u: f32[1,3]; y = "
                 "scatter_elements(data, i, u) {axis=1, reduction=\"add\"}; output y }",
                 "graph { input data: f32[1,5]; const i: i64[1,3] = [1, 1, 3]; input u: f32[1,3]; y = "
                 "scatter_elements(data, i, u) {axis=-1, reduction=\"mul\"}; output y }",
                 "graph { input data: f32[1,5]; const i: i32[1,3] = [1, 1, 3]; input u: f32[1,3]; y = "
                 "scatter_elements(data, i, u) {axis=1, reduction=\"max\"}; output y }",
                 "graph { input data: i64[5]; const i: i64[3] = [1, 1, 3]; input u: i64[3]; y = scatter_elements(data, "
                 "i, u) {reduction=\"min\"}; output y }",
                 "graph { input data: f32[2,3]; const i: i64[0,3] = []; input u: f32[0,3]; y = scatter_elements(data, "
                 "i, u); output y }"}},
    {.name = "scatter",
     .onnx = "Scatter",
     .versions = {9, 11},
     .inputs = {{"data"}, {"indices"}, {"updates"}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt}},
     .upgrade = upgrade_scatter,
     .infer = infer_scatter},
}};
}  // namespace peri::ops
