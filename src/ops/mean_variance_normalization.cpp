// MeanVarianceNormalization: y = (x - mean) / (deviation + 1e-9), both over `axes`.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/composed.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

constexpr double kEpsilon = 1e-9F;  // of the definition

Status infer(InferContext& c) {
  PERI_TRY(normalize_axes(c.node.ints("axes", {0, 2, 3}), c.rank(0)));
  c.set(0, c.dtype(0), c.shape(0));
  return Ok{};
}

// Which set of elements a flat position belongs to: its coordinates along the axes that stay.
class Sets {
 public:
  Sets(const ir::Node& node, const std::vector<int64_t>& x) : dims_(x), steps_(x.size()) {
    const std::vector<int64_t> axes = *normalize_axes(node.ints("axes", {0, 2, 3}), x.size());
    for (size_t d = x.size(); d-- > 0;) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end()) continue;
      steps_[d] = count_;
      count_ *= x[d];
    }
  }
  int64_t count() const { return count_; }
  int64_t operator()(int64_t p) const { return broadcast_index(p, dims_, steps_); }

 private:
  std::vector<int64_t> dims_, steps_;
  int64_t count_ = 1;
};

// 1 / (sqrt(variance) + epsilon).
Near inverse_deviation(Near variance, double u) {
  const double y = 1 / (std::sqrt(variance.v) + kEpsilon);
  if (u == 0 && variance.r == 0) return {y, 0};
  const double high = 1 / (std::sqrt(std::max(variance.v - variance.r, 0.0)) + kEpsilon),
               low = 1 / (std::sqrt(variance.v + variance.r) + kEpsilon);
  return {y, std::max(high - y, y - low) + 4 * u * y};
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  if (x.numel() == 0) return Ok{};
  const Sets set_of(call.node, x.dims);
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(set_of.count()));
  std::vector<char> asked(members.size(), call.positions.empty());
  for (int64_t p : call.positions) asked[static_cast<size_t>(set_of(p))] = 1;
  for (int64_t p = 0; p < x.numel(); ++p)
    if (const size_t s = static_cast<size_t>(set_of(p)); asked[s]) members[s].push_back(p);
  std::vector<Near> mean(members.size()), factor(members.size());
  for (size_t s = 0; s < members.size(); ++s) {
    if (!asked[s]) continue;
    const Moments m = moments(x, static_cast<int64_t>(members[s].size()), true, call.u,
                              [&](int64_t k) { return members[s][static_cast<size_t>(k)]; });
    mean[s] = m.mean;
    factor[s] = inverse_deviation(m.square, call.u);
  }
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t at = call.position(n);
    const size_t s = static_cast<size_t>(set_of(at));
    store(call.out[0], at, normalised(element(&x, at, 0), mean[s], factor[s], {1, 0}, {0, 0}, call.u));
  }
  return Ok{};
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 7); }

// Before opset 9: of each image, by channels unless `across_channels` says otherwise, with its variance or without.
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 9) {
    for (const char* attribute : {"across_channels", "normalize_variance"})
      if (node.has(attribute)) return invalid("attribute '%s' is of opsets before 9", attribute).expecting("axes");
    return Ok{};
  }
  std::vector<int64_t> axes;
  for (int64_t k = node.i("across_channels") != 0 ? 1 : 2; k < static_cast<int64_t>(node.in(0)->type.rank()); ++k)
    axes.push_back(k);
  const bool with_variance = node.i("normalize_variance", 1) != 0;
  node.attrs.clear();
  node.attrs["axes"] = axes;
  if (with_variance) return Ok{};
  Composed c(graph, node);
  ir::Value* const mean = c.op("reduce_mean", {c.in(0), c.ints(axes)}, {{"keepdims", int64_t{1}}});
  c.give(0, c.op("sub", {c.in(0), mean}));
  return c.done();
}

}  // namespace

extern const Entry mean_variance_normalization_entry;
const Entry mean_variance_normalization_entry{{
    {.name = "mean_variance_normalization",
     .onnx = "MeanVarianceNormalization",
     .versions = {1, 9, 13},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"across_channels", AttrKind::kInt, false, "0"},
               {"axes", AttrKind::kInts, false, "0, 2, 3"},
               {"normalize_variance", AttrKind::kInt, false, "1"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .keeps_range = true,
     .samples = {"graph { input x: f32[2,3,4,5]; y = mean_variance_normalization(x); output y }",
                 "graph { input x: f32[3,8]; y = mean_variance_normalization(x) {axes=[-1]}; output y }",
                 "graph { input x: f32[0,3,4,5]; y = mean_variance_normalization(x); output y }"}},
}};
}  // namespace peri::ops
