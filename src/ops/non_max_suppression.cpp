// NonMaxSuppression: for each batch and class the boxes in descending order of score whose overlap with no selected box
// exceeds the threshold, as rows [batch, class, box]. Of equal scores the lower index comes first; a NaN is no score.
// Overlaps are computed in float.
#include <algorithm>
#include <cmath>

#include "ops/reference/elements.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes.size() != 3 || (boxes[2].is_const() && !boxes[2].is_const(4)))
    return invalid("boxes have a wrong shape").expecting("[batch, boxes, 4]").but_found(shape_text(boxes));
  if (scores.size() != 3)
    return invalid("scores have a wrong shape").expecting("[batch, classes, boxes]").but_found(shape_text(scores));
  for (const auto& [a, b] : {std::pair{boxes[0], scores[0]}, std::pair{boxes[1], scores[2]}})
    if (a.is_const() && b.is_const() && !(a == b))
      return invalid("boxes and scores do not match").expecting(shape_text(boxes)).but_found(shape_text(scores));
  for (size_t k = 2; k < 5; ++k)
    if (c.has(k) && (c.rank(k) > 1 || (c.rank(k) == 1 && c.shape(k)[0].is_const() && c.shape(k)[0].value() > 1)))
      return invalid("a threshold is not a scalar").expecting("one element").but_found(shape_text(c.shape(k)));
  c.set(0, DType::kI64, {c.fresh("selected"), Dim(3)});
  return Ok{};
}

struct Box {
  float y0, x0, y1, x1;
  float area() const { return (y1 - y0) * (x1 - x0); }
};
Box box_at(const RefTensor& boxes, int64_t at, bool centred) {
  float v[4];
  for (int64_t k = 0; k < 4; ++k) v[k] = static_cast<float>(boxes.f[static_cast<size_t>(at * 4 + k)]);
  if (centred) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};  // x, y, width, height
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}
float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0), width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return 0;
  const float both = height * width, either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

double scalar(const RefTensor* t, double fallback) {
  if (!t || t->numel() == 0) return fallback;
  return t->floating() ? t->f[0] : static_cast<double>(t->i[0]);
}

Status reference(RefCall& call) {
  const RefTensor &boxes = *call.in[0], &scores = *call.in[1];
  auto in = [&](size_t k) { return k < call.in.size() ? call.in[k] : nullptr; };
  const int64_t batches = scores.dims[0], classes = scores.dims[1], count = scores.dims[2];
  const double most = scalar(in(2), 0);
  const float threshold = static_cast<float>(scalar(in(3), 0));
  if (!(threshold >= 0 && threshold <= 1))
    return invalid("iou_threshold is out of range").expecting("[0, 1]").but_found(std::to_string(threshold));
  const bool centred = call.node.i("center_point_box") != 0, thresholded = in(4) && in(4)->numel() > 0;
  std::vector<int64_t> rows;
  for (int64_t line = 0; line < batches * classes; ++line) {
    std::vector<int64_t> order;
    auto score = [&](int64_t k) { return scores.f[static_cast<size_t>(line * count + k)]; };
    for (int64_t k = 0; k < count; ++k)
      if (thresholded ? score(k) > scalar(in(4), 0) : !std::isnan(score(k))) order.push_back(k);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    std::vector<Box> kept;
    for (int64_t k : order) {
      if (static_cast<double>(kept.size()) >= most) break;
      const Box box = box_at(boxes, line / classes * count + k, centred);
      if (std::any_of(kept.begin(), kept.end(), [&](const Box& b) { return overlap(b, box) > threshold; })) continue;
      kept.push_back(box);
      rows.insert(rows.end(), {line / classes, line % classes, k});
    }
  }
  PERI_TRY(resize(call.out[0], {static_cast<int64_t>(rows.size() / 3), 3}));
  call.out[0].i = std::move(rows);
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = cost_move(node);
  c.flops = 16 * numel_of(node.in(1));
  return c;
}

constexpr TypeSet kFloat = types({DType::kF32}), kInt = types({DType::kI64});

}  // namespace

extern const Entry non_max_suppression_entry;
const Entry non_max_suppression_entry{{
    {.name = "non_max_suppression",
     .onnx = "NonMaxSuppression",
     .versions = {10, 11},
     .inputs = {{"boxes", kFloat},
                {"scores", kFloat},
                {"max_output_boxes_per_class", kInt, true},
                {"iou_threshold", kFloat, true},
                {"score_threshold", kFloat, true}},
     .outputs = {{"selected_indices"}},
     .attrs = {{"center_point_box", AttrKind::kInt, false, "0: corners"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .jumps = true,
     .samples = {"graph { const b: f32[1,3,4] = [0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0]; const "
                 "s: f32[1,1,3] = [0.9, 0.75, 0.6]; const m: i64[] = [3]; const t: f32[] = [0.5]; "
                 "y = non_max_suppression(b, s, m, t); output y }",
                 "graph { input b: f32[2,5,4]; input s: f32[2,3,5]; const m: i64[1] = [2]; const t: f32[1] = [0.3]; "
                 "const c: f32[1] = [0.0]; y = non_max_suppression(b, s, m, t, c) {center_point_box=1}; output y }",
                 "graph { input b: f32[1,4,4]; input s: f32[1,1,4]; y = non_max_suppression(b, s); output y }"}},
}};
}  // namespace peri::ops
