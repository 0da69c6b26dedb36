// ScatterND: a copy of data in which the slices indexed by the last axis of indices are updated.
#include "ops/reference/scatter.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1), &updates = c.shape(2);
  if (data.empty() || indices.empty())
    return invalid("%s is a scalar", data.empty() ? "data" : "indices").expecting("rank >= 1");
  PERI_TRY(reduction_of(c.node));
  if (!indices.back().is_const())
    return unsupported("the last dimension of indices must be known").but_found(shape_text(indices));
  const int64_t depth = indices.back().value();
  if (depth < 1 || depth > static_cast<int64_t>(data.size()))
    return invalid("the last dimension of indices is out of range")
        .expecting(format("[1, %zu]", data.size()))
        .but_found(std::to_string(depth));
  Shape want(indices.begin(), indices.end() - 1);
  want.insert(want.end(), data.begin() + depth, data.end());
  bool same = want.size() == updates.size();
  for (size_t d = 0; same && d < want.size(); ++d)
    same = !want[d].is_const() || !updates[d].is_const() || want[d] == updates[d];
  if (!same) return invalid("updates have a wrong shape").expecting(shape_text(want)).but_found(shape_text(updates));
  c.set(0, c.dtype(0), data);
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &data = *call.in[0], &indices = *call.in[1], &updates = *call.in[2];
  PERI_ASSIGN(const Reduction how, reduction_of(call.node));
  Scatter scatter(how, data, call.out[0], call.u);
  const size_t depth = static_cast<size_t>(indices.dims.back());
  const int64_t slice = span_of(data.dims, depth, data.dims.size()),
                tuples = span_of(indices.dims, 0, indices.dims.size() - 1);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to = 0;
    for (size_t k = 0; k < depth; ++k) {
      PERI_ASSIGN(const int64_t at,
                  checked_index(indices.i[static_cast<size_t>(t) * depth + k], data.dims[k], static_cast<int64_t>(k)));
      to = to * data.dims[k] + at;
    }
    for (int64_t e = 0; e < slice; ++e) scatter.apply(to * slice + e, updates, t * slice + e);
  }
  scatter.finish();
  return Ok{};
}

bool pull(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

std::vector<Dim> index_ends(const ir::Node& node) { return leading_ends(node, 0); }

}  // namespace

extern const Entry scatter_nd_entry;
const Entry scatter_nd_entry{{
    {.name = "scatter_nd",
     .onnx = "ScatterND",
     .versions = {11, 13, 16, 18},
     .inputs = {{"data", kMovable},
                {"indices", types({DType::kI64}), false, false, -1, Role::kIndex},
                {"updates", kMovable, false, false, 0}},
     .outputs = {{"y"}},
     .attrs = {{"reduction", AttrKind::kString, false, "none"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .index_ends = index_ends,
     .samples = {"graph { input data: f32[4,4,2]; const i: i64[2,1] = [0, -2]; input u: f32[2,4,2]; y = "
                 "scatter_nd(data, i, u); output y }",
                 "graph { input data: f32[8]; const i: i64[4,1] = [4, 3, 3, 7]; input u: f32[4]; y = scatter_nd(data, "
                 "i, u) {reduction=\"add\"}; output y }",
                 "graph { input data: f32[2,3]; const i: i64[2,2] = [0, 1, 1, 2]; input u: f32[2]; y = "
                 "scatter_nd(data, i, u) {reduction=\"mul\"}; output y }",
                 "graph { input data: i32[2,3]; const i: i64[2,2] = [0, 1, 0, 1]; input u: i32[2]; y = "
                 "scatter_nd(data, i, u) {reduction=\"max\"}; output y }",
                 "graph { input data: f32[2,3]; const i: i64[0,2] = []; input u: f32[0]; y = scatter_nd(data, i, u); "
                 "output y }"}},
}};
}  // namespace peri::ops
