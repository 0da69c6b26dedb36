// Shape inference and pulled positions shared by element-wise ops.
#include "ops/reference/unary.hpp"

#include "ops/shape/broadcast.hpp"

namespace peri::ops {

Status infer_same(InferContext& c) {
  c.set(0, c.dtype(0), c.shape(0));
  return Ok{};
}

namespace {
Status infer_as(InferContext& c, DType t) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < c.node.inputs.size(); ++i)
    if (c.has(i)) shapes.push_back(c.shape(i));
  PERI_ASSIGN(Shape s, broadcast_all(shapes));
  c.set(0, t, std::move(s));
  return Ok{};
}
}  // namespace

Status infer_broadcast(InferContext& c) { return infer_as(c, c.dtype(0)); }
Status infer_broadcast_bool(InferContext& c) { return infer_as(c, DType::kBool); }

bool pull_broadcast(const ir::Node& node, size_t port, std::span<const int64_t> positions,
                    std::vector<int64_t>* needed) {
  const std::vector<int64_t> out = concrete(*node.out());
  const std::vector<int64_t> strides = broadcast_strides(concrete(*node.in(port)), out);
  needed->clear();
  for (int64_t p : positions) needed->push_back(broadcast_index(p, out, strides));
  std::sort(needed->begin(), needed->end());
  needed->erase(std::unique(needed->begin(), needed->end()), needed->end());
  return true;
}

}  // namespace peri::ops
