// Constants narrow as the types say: nearest even, saturated, exact where they fit; and exporters' patterns in 16 bits
// are found.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.hpp"
#include "passes/pipeline.hpp"
#include "passes/rewrite/narrow.hpp"
#include "passes/rewrite/rewrite.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

class Narrow : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Narrow, testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(Narrow, EveryNumberOfTheTypeComesBackAndIsHeld) {
  Tensor all = *Tensor::zeros(GetParam(), {65536});
  for (uint32_t k = 0; k < 65536; ++k) all.mutable_as<uint16_t>()[k] = static_cast<uint16_t>(k);
  const Tensor wide = *in_float32(all), back = *saturated(wide, GetParam());
  for (int64_t k = 0; k < 65536; ++k) {
    if (std::isnan(wide.f64(k))) continue;
    ASSERT_EQ(back.as<uint16_t>()[static_cast<size_t>(k)], k);
    ASSERT_TRUE(holds_exactly(
        *Tensor::view(DType::kF32, {1}, wide.bytes().subspan(static_cast<size_t>(k) * 4, 4), nullptr), GetParam()))
        << wide.f64(k);
  }
}

TEST_P(Narrow, RoundsToNearestEvenAndSaturates) {
  const double most = GetParam() == DType::kF16 ? 65504.0 : 0x1.fep127;
  Rng rng(5);
  std::vector<float> values = {3.4e38F,  -3.4e38F,   INFINITY, -INFINITY,  65519.9F,   65520.0F,     1e-8F,   0x1p-24F,
                               0x1p-25F, 0x1.8p-25F, -0.0F,    0x1.001p0F, 0x1.003p0F, 0x1.fffp-15F, 0x1p-14F};
  for (int k = 0; k < 20000; ++k)
    values.push_back(static_cast<float>(std::ldexp(rng.normal(), static_cast<int>(rng.below(60)) - 30)));
  const Tensor wide = Tensor::of_f32({static_cast<int64_t>(values.size())}, values);
  const Tensor narrow = *saturated(wide, GetParam());
  for (size_t k = 0; k < values.size(); ++k) {
    const double v = static_cast<double>(values[k]), nearest = round_to(GetParam(), v);
    const double want = std::isinf(nearest) && std::isfinite(v) ? std::copysign(most, v) : nearest;
    ASSERT_EQ(narrow.f64(static_cast<int64_t>(k)), want) << v;
    const Tensor one = Tensor::of_f32({1}, std::vector<float>{values[k]});
    ASSERT_EQ(holds_exactly(one, GetParam()), nearest == v) << v;
  }
}

int64_t count(const ir::Graph& g, std::string_view op) {
  int64_t n = 0;
  for (const ir::Node* node : g.nodes) n += node->op == op;
  return n;
}

ir::Graph after_passes(std::string_view text, const Precision& precision = {}) {
  ir::Graph g = parse(text);
  const auto reports = run_pipeline(g, {{}, "", {}, precision});
  EXPECT_TRUE(reports.ok()) << reports.error().text();
  return g;
}

TEST(Precision, WeightsAreSaturatedMasksAreNot) {
  const ir::Graph g = after_passes(
      "graph { input x: f32[2,80]; const w: f32[80,2] = splat(1e6); const m: f32[80] = splat(-3e38); a = add(x, m); y "
      "= "
      "matmul(a, w); output y }",
      {DType::kF16, true});
  size_t weights = 0, masks = 0;
  for (const ir::Value* v : g.constants()) {
    weights += v->type.dtype == DType::kF16 && v->constant->f64(0) == 65504;
    masks += v->type.dtype == DType::kF32 && v->constant->f64(0) < -2e38;
  }
  EXPECT_EQ(weights, 1U) << ir::print(g);
  EXPECT_EQ(masks, 1U) << "added in float32\n" << ir::print(g);
}

TEST(Precision, OnlyWhatTheTypeHoldsIsStoredInItUnasked) {
  const ir::Graph g = after_passes(
      "graph { input x: f32[2,16]; const w: f32[16,8] = splat(0.1); const v: f32[16,8] = splat(0.125); a = matmul(x, "
      "w); "
      "b = matmul(x, v); y = add(a, b); output y }",
      {DType::kF16, false});
  for (const ir::Value* v : g.constants())
    EXPECT_EQ(v->type.dtype, v->constant->f64(0) == 0.125 ? DType::kF16 : DType::kF32);
}

TEST(Precision, TheMaskOfANarrowAttentionStaysFloat32) {
  const ir::Graph g = after_passes(
      "graph { input q: f32[1,2,4,8]; input k: f32[1,2,4,8]; input v: f32[1,2,4,8]; const m: f32[4] = [0.0, -3.4e38, "
      "-inf, 1.0]; y = attention(q, k, v, m); output y }",
      {.values = DType::kF16});
  const ir::Node* attention = made_by(made_by(g.outputs[0], "cast")->in(0), "attention");
  ASSERT_NE(attention, nullptr) << ir::print(g);
  for (size_t k = 0; k < 3; ++k) EXPECT_EQ(attention->in(k)->type.dtype, DType::kF16) << k;
  EXPECT_EQ(attention->in(3)->type.dtype, DType::kF32) << "saturated it would hide a row in part";
  EXPECT_EQ(attention->in(3)->constant->f64(1), static_cast<double>(-3.4e38F));
  EXPECT_EQ(attention->in(3)->constant->f64(2), -INFINITY);
}

// Places, sizes and comparisons of coordinates are no activations.
TEST(Precision, WhatIsComputedWithoutWeightsStaysFloat32) {
  const ir::Graph g = after_passes(
      "graph { input x: f32[4,80]; input w: f32[80,3]; input i: i64[4,1]; p = cast(i) {to=1}; q = mul(p, p); a = "
      "matmul(x, w); y = add(a, q); output y; output q }",
      {.values = DType::kF16});
  EXPECT_EQ(g.outputs[1]->type.dtype, DType::kF32);
  EXPECT_EQ(g.outputs[1]->producer->op, "mul") << ir::print(g);
  EXPECT_EQ(made_by(g.outputs[0], "cast")->in(0)->type.dtype, DType::kF16);
}

TEST(Precision, GeluIsFoundWithConstantsIn16Bits) {
  const auto text = [](const std::string& type, const std::string& root) {
    return "graph { input x: " + type + "[2,9]; const r: " + type + "[] = [" + root + "]; const o: " + type +
           "[] = [1.0]; const h: " + type +
           "[] = [0.5]; a = div(x, r); b = erf(a); c = add(b, o); d = mul(x, c); y = mul(d, h); output y }";
  };
  EXPECT_EQ(count(after_passes(text("f16", "1.4142135")), "gelu"), 1);
  EXPECT_EQ(count(after_passes(text("bf16", "1.4142135")), "gelu"), 1);
  EXPECT_EQ(count(after_passes(text("f16", "1.4160156")), "gelu"), 0) << "the next number of the type";
  EXPECT_EQ(count(after_passes(text("bf16", "1.421875")), "gelu"), 0) << "the next number of the type";
}

}  // namespace
}  // namespace peri::passes
