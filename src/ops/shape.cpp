// Shape (a range of axes) and size: their results are contents, so that shape arithmetic in a model is done at compile
// time.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
// Clamped [start, end) of the axes of a rank.
std::pair<int64_t, int64_t> axis_range(const ir::Node& node, int64_t rank) {
  auto clamp = [rank](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = clamp(node.i("start", 0)), end = clamp(node.i("end", rank));
  return {start, std::max(start, end)};
}

Status infer_shape(InferContext& c) {
  const auto [start, end] = axis_range(c.node, static_cast<int64_t>(c.rank(0)));
  c.set(0, DType::kI64, {Dim(end - start)});
  c.set_content(0, {c.shape(0).begin() + start, c.shape(0).begin() + end});
  return Ok{};
}
Status shape(RefCall& call) {
  const std::vector<int64_t>& dims = call.in[0]->dims;
  const auto [start, end] = axis_range(call.node, static_cast<int64_t>(dims.size()));
  call.out[0].i.assign(dims.begin() + start, dims.begin() + end);
  return Ok{};
}
Status infer_size(InferContext& c) {
  c.set(0, DType::kI64, {});
  c.set_content(0, {product(c.shape(0))});
  return Ok{};
}
Status size(RefCall& call) {
  call.out[0].i = {call.in[0]->numel()};
  return Ok{};
}
bool pull_nothing(const ir::Node&, size_t, std::span<const int64_t>, std::vector<int64_t>* needed) {
  needed->clear();
  return true;
}
}  // namespace

extern const Entry shape_entry;
const Entry shape_entry{{
    {.name = "shape",
     .onnx = "Shape",
     .versions = {1, 13, 15, 19, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .attrs = {{"start", AttrKind::kInt, false, "0"}, {"end", AttrKind::kInt, false, "rank"}},
     .infer = infer_shape,
     .reference = shape,
     .pull = pull_nothing,
     .cost = cost_view,
     .samples = {"graph { input x: f32[2,3,5]; y = shape(x); output y }",
                 "graph { input x: f32[2,3,5]; y = shape(x) {start=1, end=-1}; output y }",
                 "graph { input x: f32[]; y = shape(x); output y }",
                 "graph { input x: f32[2,0]; y = shape(x) {start=5}; output y }",
                 "graph { input x: f32[2,3]; y = shape(x) {start=-5, end=9}; output y }"}},
    {.name = "size",
     .onnx = "Size",
     .versions = {1, 13, 19, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .infer = infer_size,
     .reference = size,
     .pull = pull_nothing,
     .cost = cost_view,
     .samples = {"graph { input x: f32[2,3,5]; y = size(x); output y }",
                 "graph { input x: i8[]; y = size(x); output y }",
                 "graph { input x: f32[2,0]; y = size(x); output y }"}},
}};
}  // namespace peri::ops
