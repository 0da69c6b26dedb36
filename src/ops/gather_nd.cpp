// GatherND: slices of data indexed by the last axis of indices, within equal leading batch axes.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  if (data.empty() || indices.empty())
    return invalid("%s is a scalar", data.empty() ? "data" : "indices").expecting("rank >= 1");
  const int64_t batch = c.node.i("batch_dims", 0);
  if (batch < 0 || batch >= static_cast<int64_t>(std::min(data.size(), indices.size())))
    return invalid("batch_dims is out of range")
        .expecting(format("[0, %zu)", std::min(data.size(), indices.size())))
        .but_found(std::to_string(batch));
  if (!indices.back().is_const())
    return unsupported("the last dimension of indices must be known").but_found(shape_text(indices));
  const int64_t depth = indices.back().value();
  if (depth < 1 || depth > static_cast<int64_t>(data.size()) - batch)
    return invalid("the last dimension of indices is out of range")
        .expecting(format("[1, %lld]", static_cast<long long>(static_cast<int64_t>(data.size()) - batch)))
        .but_found(std::to_string(depth));
  for (int64_t d = 0; d < batch; ++d) {
    const Dim &a = data[static_cast<size_t>(d)], &b = indices[static_cast<size_t>(d)];
    if (a.is_const() && b.is_const() && !(a == b))
      return invalid("batch axes of data and indices differ").expecting(a.text()).but_found(b.text());
  }
  Shape y(indices.begin(), indices.end() - 1);
  y.insert(y.end(), data.begin() + batch + depth, data.end());
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

struct Sizes {
  size_t batch, depth;
  int64_t tuples, slice;  // index tuples in one batch; elements one of them names
  Sizes(const ir::Node& node, const std::vector<int64_t>& data, const std::vector<int64_t>& indices)
      : batch(static_cast<size_t>(node.i("batch_dims", 0))), depth(static_cast<size_t>(indices.back())) {
    tuples = span_of(indices, batch, indices.size() - 1);
    slice = span_of(data, batch + depth, data.size());
  }
};

Status reference(RefCall& call) {
  const RefTensor &data = *call.in[0], &indices = *call.in[1];
  if (call.out[0].numel() == 0) return Ok{};
  const Sizes s(call.node, data.dims, indices.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), tuple = p / s.slice;
    int64_t from = tuple / s.tuples;
    for (size_t k = 0; k < s.depth; ++k) {
      const int64_t extent = data.dims[s.batch + k];
      PERI_ASSIGN(const int64_t at, checked_index(indices.i[static_cast<size_t>(tuple) * s.depth + k], extent,
                                                  static_cast<int64_t>(s.batch + k)));
      from = from * extent + at;
    }
    copy_element(data, from * s.slice + p % s.slice, call.out[0], p);
  }
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port == 0) return false;
  const std::vector<int64_t> indices = concrete(*node.in(1));
  const Sizes s(node, concrete(*node.in(0)), indices);
  PositionSet set(span_of(indices, 0, indices.size()));
  const int64_t depth = static_cast<int64_t>(s.depth);
  for (int64_t p : positions) set.add_range(p / s.slice * depth, (p / s.slice + 1) * depth);
  set.list(needed);
  return true;
}

std::vector<Dim> index_ends(const ir::Node& node) { return leading_ends(node, node.i("batch_dims", 0)); }

}  // namespace

extern const Entry gather_nd_entry;
const Entry gather_nd_entry{{
    {.name = "gather_nd",
     .onnx = "GatherND",
     .versions = {11, 12, 13},
     .inputs = {{"data", kMovable}, {"indices", kIndex, false, false, -1, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"batch_dims", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .index_ends = index_ends,
     .samples =
         {"graph { input data: f32[2,3,4]; const i: i64[2,2] = [0, 1, -1, -3]; y = gather_nd(data, i); output y }",
          "graph { input data: f32[2,3,4]; const i: i64[2,1] = [2, -1]; y = gather_nd(data, i) {batch_dims=1}; output "
          "y }",
          "graph { input data: i32[4]; const i: i64[1] = [3]; y = gather_nd(data, i); output y }",
          "graph { input data: f32[2,3]; const i: i64[0,2] = []; y = gather_nd(data, i); output y }"}},
}};
}  // namespace peri::ops
