// The whole answer of a deep model is held against float64: what radii that grow along the graph would allow, or a
// mask's large number would excuse, is still wrong.
#include "judge/whole.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.hpp"

namespace peri::judge {
namespace {

constexpr int64_t kRows = 4, kWidth = 32;

Tensor normal(std::vector<int64_t> dims, double spread, uint64_t seed) {
  Tensor t = Tensor::zeros(DType::kF32, std::move(dims)).value();
  Rng rng(seed);
  for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, spread * rng.normal());
  return t;
}

// So many products of He's spread with relu between, weights as inputs.
std::string deep(int layers) {
  std::string in = format("graph { input x: f32[%lld,%lld]; ", static_cast<long long>(kRows),
                          static_cast<long long>(kWidth)),
              body, at = "x";
  for (int k = 0; k < layers; ++k) {
    in += format("input w%d: f32[%lld,%lld]; ", k, static_cast<long long>(kWidth), static_cast<long long>(kWidth));
    body += format("p%d = matmul(%s, w%d); r%d = relu(p%d); ", k, at.c_str(), k, k, k);
    at = format("r%d", k);
  }
  return in + body + "output " + at + " }";
}

struct Answered {
  ir::Graph graph;
  std::vector<Tensor> inputs, outputs;
};
Answered answered(const std::string& text, std::vector<Tensor> inputs) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << text << (graph.ok() ? "" : graph.error().text());
  Answered a{std::move(graph).value(), std::move(inputs), {}};
  EXPECT_TRUE(ops::infer_graph(a.graph).ok());
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : a.inputs) in.push_back(ops::to_ref(t));
  const auto out = ops::run_reference(a.graph, in);
  EXPECT_TRUE(out.ok());
  for (const ops::RefTensor& t : *out) a.outputs.push_back(ops::from_ref(t));
  return a;
}
WholeVerdict verdict(const Answered& a) { return judge_whole(a.graph, a.inputs, a.outputs, 1).value(); }

Answered deep_model(int layers) {
  std::vector<Tensor> in = {normal({kRows, kWidth}, 1, 1)};
  for (int k = 0; k < layers; ++k)
    in.push_back(normal({kWidth, kWidth}, std::sqrt(2.0 / static_cast<double>(kWidth)), 10 + static_cast<uint64_t>(k)));
  return answered(deep(layers), std::move(in));
}

TEST(Whole, ADeepModelThatIsFivePercentOffIsWrong) {
  for (const int layers : {4, 20}) {
    Answered a = deep_model(layers);
    EXPECT_EQ(verdict(a).wrong, "") << layers;
    EXPECT_EQ(verdict(a).left_out, "") << layers;
    Tensor& y = a.outputs[0];
    int64_t largest = 0;
    for (int64_t k = 0; k < y.numel(); ++k)
      if (y.f64(k) > y.f64(largest)) largest = k;
    y.set_f64(largest, 1.05 * y.f64(largest));
    EXPECT_NE(verdict(a).wrong, "") << layers << ": " << verdict(a).left_out;
  }
}

// Three equal values less their mean, over the root of their variance: nothing over nearly nothing. A mean that is off
// by one rounding makes a thousandth of it, within no radius that says something, and more than that is wrong.
TEST(Whole, WhatNormalisingEqualValuesLeavesIsNotWrong) {
  const char* kText =
      "graph { input x: f32[5,1,17,7]; const t: i64[4] = [1,3,1,1]; const k: i64[2] = [2,3]; const c: i64[3] = "
      "[1,2,3]; a = reduce_l2(x, k) {keepdims=1}; b = tile(a, t); m = reduce_mean(b, c) {keepdims=1}; s = sub(b, m); "
      "q = mul(s, s); v = reduce_mean(q, c) {keepdims=1}; const e: f32[] = [1e-6]; w = add(v, e); r = sqrt(w); y = "
      "div(s, r); output y }";
  Answered a = answered(kText, {normal({5, 1, 17, 7}, 1, 3)});
  a.outputs[0].set_f64(6, -1.1e-3);
  EXPECT_EQ(verdict(a).wrong, "");
  EXPECT_NE(verdict(a).left_out, "");
  a.outputs[0].set_f64(6, -0.2);
  EXPECT_NE(verdict(a).wrong, "");
}

// (x + 1) - x - 1 leaves the rounding of values of about one: within radii that say something.
TEST(Whole, WhatCancellingLeavesIsNotWrong) {
  Answered a = answered(
      "graph { input x: f32[64]; const one: f32[1] = [1]; a = add(x, one); b = sub(a, x); y = sub(b, one); output y }",
      {normal({64}, 1, 3)});
  for (int64_t k = 0; k < 64; ++k) a.outputs[0].set_f64(k, 5e-8);
  EXPECT_EQ(verdict(a).wrong, "");
}

TEST(Whole, AMaskExcusesNoNan) {
  Answered a = answered(
      "graph { input x: f32[4,8]; input m: f32[4,8]; const low: f32[1] = [-3.4e38]; n = mul(m, low); s = add(x, n); "
      "y = softmax(s) {axis=-1}; output y }",
      {normal({4, 8}, 1, 5), Tensor::zeros(DType::kF32, {4, 8}).value()});
  a.inputs[1].set_f64(3, 1);
  a = answered(ir::print(a.graph), a.inputs);
  EXPECT_EQ(verdict(a).wrong, "");
  a.outputs[0].set_f64(0, NAN);
  EXPECT_NE(verdict(a).wrong, "") << verdict(a).left_out;
}

// As exporters of mixed precision write it: products in float16 between casts, norms and residuals in float32.
std::string mixed(std::string_view residual, std::string_view after) {
  return "graph { input x: f32[4,32]; input w: f16[32,32]; input s: f32[32]; input z: f32[32]; a = cast(x) {to=3}; p = "
         "matmul(a, w); b = cast(p) {to=1}; n = layer_normalization(b, s, z) {axis=-1}; c = cast(n) {to=3}; q = "
         "matmul(c, w); d = cast(q) {to=1}; r = add(d, " +
         std::string(residual) + "); y = " + std::string(after) + "(r); output y }";
}
Answered mixed_model(std::string_view residual = "x", std::string_view after = "relu") {
  Tensor w = Tensor::zeros(DType::kF16, {32, 32}).value();
  const Tensor wide = normal({32, 32}, 0.25, 3);
  for (int64_t k = 0; k < w.numel(); ++k) w.set_f64(k, wide.f64(k));
  return answered(mixed(residual, after), {normal({4, 32}, 1, 2), w, normal({32}, 1, 4), normal({32}, 1, 5)});
}

TEST(Whole, AWrongRewritingOfAMixedPrecisionModelIsCaught) {
  Answered right = mixed_model();
  EXPECT_EQ(verdict(right).wrong, "");
  EXPECT_EQ(verdict(right).left_out, "");
  // As an engine computes it: every value rounded to its type, and every value in float32 between casts.
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : right.inputs) in.push_back(ops::to_ref(t));
  for (const double u : {0.0, unit_roundoff(DType::kF32)}) {
    const auto out = ops::run_reference(right.graph, in, {u, 1, true, {}});
    ASSERT_TRUE(out.ok());
    right.outputs[0] = ops::from_ref((*out)[0]);
    EXPECT_EQ(verdict(right).wrong, "") << u;
    EXPECT_LT(verdict(right).error, 1) << u;
  }
  for (const auto& [residual, after] : {std::pair("b", "relu"), std::pair("d", "relu"), std::pair("x", "abs")}) {
    right.outputs = mixed_model(residual, after).outputs;
    EXPECT_NE(verdict(right).wrong, "") << residual << " " << after << ": " << verdict(right).left_out;
  }
  right = mixed_model();
  Tensor& y = right.outputs[0];
  y.set_f64(5, y.f64(5) + 0.2);
  EXPECT_NE(verdict(right).wrong, "") << verdict(right).left_out;
}

// A model all in float16: what it stores is rounded once, and a tenth of its range is no rounding.
TEST(Whole, AHalfPrecisionModelThatIsATenthOffIsWrong) {
  Tensor w = Tensor::zeros(DType::kF16, {32, 32}).value(), x = Tensor::zeros(DType::kF16, {4, 32}).value();
  const Tensor wide = normal({32, 32}, 0.25, 3), wide_x = normal({4, 32}, 1, 2);
  for (int64_t k = 0; k < w.numel(); ++k) w.set_f64(k, wide.f64(k));
  for (int64_t k = 0; k < x.numel(); ++k) x.set_f64(k, wide_x.f64(k));
  Answered a = answered(
      "graph { input x: f16[4,32]; input w: f16[32,32]; p = matmul(x, w); r = relu(p); q = matmul(r, w); t = relu(q); "
      "y = matmul(t, w); output y }",
      {x, w});
  EXPECT_EQ(verdict(a).wrong, "");
  double range = 0;
  for (int64_t k = 0; k < 128; ++k) range = std::max(range, std::fabs(a.outputs[0].f64(k)));
  a.outputs[0].set_f64(7, a.outputs[0].f64(7) + range / 10);
  EXPECT_NE(verdict(a).wrong, "") << verdict(a).left_out;
}

TEST(Whole, ARoundingToIntegersIsLeftOpen) {
  const Answered a =
      answered("graph { input x: f32[4,8]; h = cast(x) {to=3}; i = cast(h) {to=14}; y = cast(i) {to=1}; output y }",
               {normal({4, 8}, 3, 1)});
  EXPECT_EQ(verdict(a).wrong, "");
  EXPECT_NE(verdict(a).left_out, "");
}

}  // namespace
}  // namespace peri::judge
