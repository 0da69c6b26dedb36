// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: -weight[t] * log p[t] for each target t, unreduced, summed, or
// averaged by weight. x is [batch, classes, d...], targets are [batch, d...].
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Result<bool> reduces(const ir::Node& node) {
  const std::string how = node.s("reduction", "mean");
  if (how != "none" && how != "sum" && how != "mean")
    return invalid("reduction is unknown").expecting("none, sum or mean").but_found(how);
  return how != "none";
}

Status infer(InferContext& c) {
  const Shape &x = c.shape(0), &t = c.shape(1);
  bool fits = x.size() >= 2 && t.size() + 1 == x.size();
  for (size_t d = 0; fits && d < t.size(); ++d) {
    const Dim& wanted = x[d == 0 ? 0 : d + 1];
    fits = !wanted.is_const() || !t[d].is_const() || wanted == t[d];
  }
  if (!fits)
    return invalid("the targets do not fit the scores")
        .expecting("[batch, d...] for scores [batch, classes, d...]")
        .but_found(shape_text(t) + " for " + shape_text(x));
  if (c.has(2) && (c.rank(2) != 1 || (c.shape(2)[0].is_const() && x[1].is_const() && !(c.shape(2)[0] == x[1]))))
    return invalid("the weights have a wrong shape")
        .expecting("[" + x[1].text() + "]")
        .but_found(shape_text(c.shape(2)));
  PERI_ASSIGN(const bool reduced, reduces(c.node));
  c.set(0, c.dtype(0), reduced ? Shape{} : t);
  if (c.out.size() > 1) c.set(1, c.dtype(0), x);
  return Ok{};
}

// Losses from the logarithm of each class's probability, log_p(flat position of x).
template <class LogP>
Status losses(RefCall& call, LogP log_p) {
  const RefTensor &x = *call.in[0], &target = *call.in[1];
  const RefTensor* weight = call.in.size() > 2 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  const int64_t classes = x.dims[1], inner = span_of(x.dims, 2, x.dims.size());
  const bool ignores = call.node.has("ignore_index");
  const int64_t ignored = call.node.i("ignore_index");
  const std::string how = call.node.s("reduction", "mean");
  Near sum, weights;
  double magnitude = 0;
  for (int64_t p = 0; p < target.numel(); ++p) {
    const int64_t t = target.i[static_cast<size_t>(p)];
    if (ignores && t == ignored) {
      if (how == "none") store(y, p, {0, 0});
      continue;
    }
    if (t < 0 || t >= classes)
      return invalid("a target is not a class")
          .expecting(format("[0, %lld)", static_cast<long long>(classes)))
          .but_found(std::to_string(t));
    const Near w = element(weight, t, 1);
    Near loss = times(w, log_p((p / inner * classes + t) * inner + p % inner));
    loss = {-loss.v, loss.r + call.u * std::fabs(loss.v)};
    if (how == "none") store(y, p, loss);
    sum = {sum.v + loss.v, sum.r + loss.r};
    weights = {weights.v + w.v, weights.r + w.r};
    magnitude += std::fabs(loss.v);
  }
  if (how == "none") return Ok{};
  if (call.u > 0) sum.r += sum_radius(call.u, target.numel() + 1, magnitude);
  if (how == "sum") {
    store(y, 0, sum);
    return Ok{};
  }
  const double mean = sum.v / weights.v;
  const double own =
      call.u > 0 ? 4 * call.u * std::fabs(mean) + sum_radius(call.u, target.numel(), std::fabs(mean)) : 0;
  store(y, 0, {mean, sum.r / std::fabs(weights.v) + std::fabs(mean / weights.v) * weights.r + own});
  return Ok{};
}

Status nll(RefCall& call) {
  return losses(call, [&](int64_t at) { return element(call.in[0], at, 0); });
}

// log p = x - log(sum of e^x) over the classes.
Status cross_entropy(RefCall& call) {
  const RefTensor& x = *call.in[0];
  const int64_t classes = x.dims[1], inner = span_of(x.dims, 2, x.dims.size());
  std::vector<Near> log_p(static_cast<size_t>(x.numel()));
  for (int64_t row = 0; classes > 0 && row < x.numel() / classes; ++row) {
    const int64_t first = row / inner * classes * inner + row % inner;
    double most = -INFINITY, far = 0, total = 0;
    for (int64_t k = 0; k < classes; ++k) {
      most = std::max(most, x.f[static_cast<size_t>(first + k * inner)]);
      far = std::max(far, x.r(first + k * inner));
    }
    for (int64_t k = 0; k < classes; ++k) total += std::exp(x.f[static_cast<size_t>(first + k * inner)] - most);
    const double log_total = std::log(total);
    for (int64_t k = 0; k < classes; ++k) {
      const size_t at = static_cast<size_t>(first + k * inner);
      const double shifted = x.f[at] - most, v = shifted - log_total;
      log_p[at] = {v, 0};
      if (call.u > 0 && std::isfinite(v))
        log_p[at].r = x.r(static_cast<int64_t>(at)) + far + sum_radius(call.u, classes, 1) +
                      call.u * (2 * std::fabs(shifted) + 4 * std::fabs(v) + 4 * log_total + 2);
    }
  }
  if (call.out.size() > 1)
    for (int64_t p = 0; p < x.numel(); ++p) store(call.out[1], p, log_p[static_cast<size_t>(p)]);
  return losses(call, [&](int64_t at) { return log_p[static_cast<size_t>(at)]; });
}

std::vector<Dim> index_ends(const ir::Node& node) {
  const ir::Type& x = node.in(0)->type;
  return x.known() && x.rank() > 1 ? std::vector<Dim>{(*x.shape)[1]} : std::vector<Dim>{};
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 4); }

OpDef loss(std::string_view name, std::string_view onnx, std::vector<int> versions, Status (*reference)(RefCall&)) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", kFloats},
                     {"target", kIndex, false, false, -1, Role::kIndex},
                     {"class_weights", kFloats, true, false, 0, Role::kScale}},
          .outputs = {{"y"}},
          .attrs = {{"ignore_index", AttrKind::kInt, false, "none"}, {"reduction", AttrKind::kString, false, "mean"}},
          .infer = infer,
          .reference = reference,
          .cost = cost,
          .index_ends = index_ends};
}

OpDef nll_op() {
  OpDef op = loss("negative_log_likelihood_loss", "NegativeLogLikelihoodLoss", {12, 13, 22}, nll);
  op.samples = {
      "graph { input x: f32[3,5]; const t: i64[3] = [4, 0, 2]; y = negative_log_likelihood_loss(x, t); output y }",
      "graph { input x: f32[2,3,4]; const t: i32[2,4] = [0, 1, 2, 1, 0, 0, 2, 1]; const w: f32[3] = [0.5, 1.0, 2.0]; y "
      "= "
      "negative_log_likelihood_loss(x, t, w) {ignore_index=1, reduction=\"none\"}; output y }",
      "graph { input x: f32[2,3,2,2]; const t: i64[2,2,2] = [0, 1, 2, 1, 0, 0, 2, 1]; const w: f32[3] = [0.5, 1.0, "
      "2.0]; y = "
      "negative_log_likelihood_loss(x, t, w) {reduction=\"sum\"}; output y }",
      "graph { input x: f32[0,3]; input t: i64[0]; y = negative_log_likelihood_loss(x, t) {reduction=\"none\"}; output "
      "y }"};
  return op;
}

OpDef cross_entropy_op() {
  OpDef op = loss("softmax_cross_entropy_loss", "SoftmaxCrossEntropyLoss", {12, 13}, cross_entropy);
  op.outputs.push_back({"log_prob", kAnyType, true});
  op.samples = {
      "graph { input x: f32[3,5]; const t: i64[3] = [4, 0, 2]; y, p = softmax_cross_entropy_loss(x, t); output y; "
      "output p }",
      "graph { input x: f32[2,3,4]; const t: i32[2,4] = [0, 1, 2, 1, 0, 0, 2, 1]; const w: f32[3] = [0.5, 1.0, 2.0]; "
      "y, "
      "p = softmax_cross_entropy_loss(x, t, w) {ignore_index=1, reduction=\"none\"}; output y; output p }",
      "graph { input x: f32[2,3,2]; const t: i64[2,2] = [0, 2, 1, 1]; y, p = softmax_cross_entropy_loss(x, t) "
      "{reduction=\"sum\"}; "
      "output y }"};
  return op;
}
}  // namespace

extern const Entry losses_entry;
const Entry losses_entry{{nll_op(), cross_entropy_op()}};

}  // namespace peri::ops
