// Two round-offs: sums are held to float32's, results to that of the type they are stored in, once; inner values may be
// rounded where the op says so and nowhere else. Each case computes the region in a stated rounding and asks the judge.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "kernels/entry.hpp"
#include "tune/expected.hpp"

namespace peri::tune {
namespace {

Tensor normal(DType type, std::vector<int64_t> dims, uint64_t seed, double spread = 1) {
  Tensor t = *Tensor::zeros(type, std::move(dims));
  Rng rng(seed);
  for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, spread * rng.normal());
  return t;
}

ir::Graph region_of(const std::string& text, DType type) {
  std::string typed = text;
  for (size_t at = typed.find("T["); at != std::string::npos; at = typed.find("T[", at + 1))
    typed.replace(at, 1, dtype_name(type));
  auto g = ir::parse_graph(typed);
  EXPECT_TRUE(g.ok()) << typed;
  EXPECT_TRUE(ops::infer_graph(*g).ok()) << typed;
  return *std::move(g);
}

// Whether the judge takes this answer, whole and at positions.
bool passes(const ir::Graph& region, const std::vector<Tensor>& in, const std::vector<double>& answer) {
  Tensor got = *Tensor::zeros(region.outputs[0]->type.dtype, kernels::dims_of(*region.outputs[0]));
  EXPECT_EQ(static_cast<size_t>(got.numel()), answer.size());
  for (int64_t k = 0; k < got.numel(); ++k) got.set_f64(k, answer[static_cast<size_t>(k)]);
  const auto whole = expected_at(region, in, 1, {});
  std::vector<int64_t> all(answer.size());
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<int64_t>(k);
  const auto at = expected_at(region, in, 1, all);
  EXPECT_TRUE(whole.ok() && at.ok());
  const bool right = compare(*whole, {&got, 1}).ok();
  EXPECT_EQ(right, compare(*at, {&got, 1}).ok()) << "whole and at positions";
  return right;
}

double in_type(DType t, double v) { return round_to(t, v); }

// x w, each partial sum rounded to `sums`.
std::vector<double> product(const Tensor& x, const Tensor& w, DType sums) {
  const int64_t m = x.dims()[0], k = x.dims()[1], n = w.dims()[1];
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum = in_type(sums, sum + x.f64(i * k + l) * w.f64(l * n + j));
      y.push_back(sum);
    }
  return y;
}

class Storage : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Storage, testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(Storage, SumsAreFloat32) {
  for (const int64_t k : {576, 2304}) {
    const std::string text = "graph { input x: T[12," + std::to_string(k) + "]; input w: T[" + std::to_string(k) +
                             ",10]; y = matmul(x, w); output y }";
    const ir::Graph region = region_of(text, GetParam());
    const std::vector<Tensor> in = {normal(GetParam(), {12, k}, 1),
                                    normal(GetParam(), {k, 10}, 2, 1 / std::sqrt(static_cast<double>(k)))};
    EXPECT_TRUE(passes(region, in, product(in[0], in[1], DType::kF32))) << k;
    EXPECT_FALSE(passes(region, in, product(in[0], in[1], GetParam()))) << k;
  }
}

TEST_P(Storage, AResidualIsAddedBeforeTheOneRounding) {
  const ir::Graph region = region_of(
      "graph { input x: T[12,64]; input w: T[64,40]; input r: T[12,40]; a = matmul(x, w); y = add(a, r); output y }",
      GetParam());
  const std::vector<Tensor> in = {normal(GetParam(), {12, 64}, 3), normal(GetParam(), {64, 40}, 4, 0.125),
                                  normal(GetParam(), {12, 40}, 5)};
  std::vector<double> right = product(in[0], in[1], DType::kF32), twice = right;
  for (size_t k = 0; k < right.size(); ++k) {
    const double r = in[2].f64(static_cast<int64_t>(k));
    right[k] = in_type(DType::kF32, right[k] + r);
    twice[k] = in_type(GetParam(), twice[k]) + r;
  }
  EXPECT_TRUE(passes(region, in, right));
  EXPECT_FALSE(passes(region, in, twice));
}

// A type's small numbers are numbers: none of 40,000 shares of one is nothing.
TEST_P(Storage, SubnormalResultsAreKept) {
  const ir::Graph region = region_of("graph { input x: T[1,40000]; y = softmax(x); output y }", GetParam());
  const std::vector<Tensor> in = {normal(GetParam(), {1, 40000}, 10, 0.25)};
  std::vector<double> y;
  double sum = 0;
  for (int64_t k = 0; k < 40000; ++k) sum += y.emplace_back(std::exp(in[0].f64(k)));
  for (double& v : y) v /= sum;
  EXPECT_TRUE(passes(region, in, y));
  std::fill(y.begin(), y.end(), 0.0);
  EXPECT_FALSE(passes(region, in, y));
}

TEST_P(Storage, AnotherGeluIsNone) {
  const auto erf = [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); };
  const auto tanh = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  };
  for (const DType type : {GetParam(), DType::kF32}) {
    const ir::Graph region = region_of("graph { input x: T[1000]; y = gelu(x); output y }", type);
    const std::vector<Tensor> in = {normal(type, {1000}, 6, 1.5)};
    for (const bool right : {true, false}) {
      std::vector<double> y;
      for (int64_t k = 0; k < 1000; ++k) y.push_back(right ? erf(in[0].f64(k)) : tanh(in[0].f64(k)));
      EXPECT_EQ(passes(region, in, y), right) << dtype_name(type);
    }
  }
}

// softmax(q kT / sqrt(d)) v in float32, but for the exponentials and the probabilities.
std::vector<double> attention(const std::vector<Tensor>& in, DType exponentials, DType probabilities) {
  const int64_t n = in[0].dims()[2], keys = in[1].dims()[2], d = in[0].dims()[3];
  std::vector<double> y;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> s;
    double top = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (int64_t e = 0; e < d; ++e) dot = in_type(DType::kF32, dot + in[0].f64(i * d + e) * in[1].f64(j * d + e));
      s.push_back(in_type(DType::kF32, dot / std::sqrt(static_cast<double>(d))));
      top = std::max(top, s.back());
    }
    for (double& v : s) {
      v = in_type(DType::kF32, std::exp(v - top));
      sum = in_type(DType::kF32, sum + v);
      v = in_type(exponentials, v);
    }
    const bool divided = probabilities != DType::kF32;
    for (double& v : s) v = divided ? in_type(probabilities, v / sum) : v;
    for (int64_t e = 0; e < d; ++e) {
      double out = 0;
      for (int64_t j = 0; j < keys; ++j)
        out = in_type(DType::kF32, out + s[static_cast<size_t>(j)] * in[2].f64(j * d + e));
      y.push_back(divided ? out : out / sum);
    }
  }
  return y;
}

TEST_P(Storage, AttentionMayKeepProbabilitiesNarrowWhereItsResultIs) {
  const std::string text =
      "graph { input q: T[1,1,20,32]; input k: T[1,1,150,32]; input v: T[1,1,150,32]; y = attention(q, k, v); output "
      "y }";
  const auto inputs = [](DType t) {
    return std::vector<Tensor>{normal(t, {1, 1, 20, 32}, 7, 2), normal(t, {1, 1, 150, 32}, 8, 2),
                               normal(t, {1, 1, 150, 32}, 9)};
  };
  const ir::Graph narrow = region_of(text, GetParam()), wide = region_of(text, DType::kF32);
  const std::vector<Tensor> in = inputs(GetParam()), full = inputs(DType::kF32);
  EXPECT_TRUE(passes(narrow, in, attention(in, DType::kF32, DType::kF32)));
  EXPECT_TRUE(passes(narrow, in, attention(in, GetParam(), DType::kF32))) << "exponentials";
  EXPECT_TRUE(passes(narrow, in, attention(in, DType::kF32, GetParam()))) << "probabilities";
  EXPECT_TRUE(passes(wide, full, attention(full, DType::kF32, DType::kF32)));
  EXPECT_FALSE(passes(wide, full, attention(full, GetParam(), DType::kF32))) << "results in float32 allow none";
  EXPECT_FALSE(passes(wide, full, attention(full, DType::kF32, GetParam()))) << "results in float32 allow none";
  if (GetParam() == DType::kF16) {
    EXPECT_FALSE(passes(narrow, in, attention(in, DType::kF8E4M3FN, DType::kF32))) << "narrower than the results";
  }
}

// The rest of attention is held to the arithmetic: an op's fact is about its probabilities only.
TEST_P(Storage, ScoresOfAttentionAreFloat32) {
  const ir::Graph region = region_of(
      "graph { input q: T[1,1,20,32]; input k: T[1,1,150,32]; input v: T[1,1,150,32]; y = attention(q, k, v); output "
      "y }",
      GetParam());
  std::vector<Tensor> in = {normal(GetParam(), {1, 1, 20, 32}, 7, 8), normal(GetParam(), {1, 1, 150, 32}, 8, 8),
                            normal(GetParam(), {1, 1, 150, 32}, 9)};
  const std::vector<double> right = attention(in, DType::kF32, DType::kF32);
  EXPECT_TRUE(passes(region, in, right));
  // Scores near 100, moved by a rounding to the narrow type: the same as another q.
  std::vector<Tensor> other = in;
  other[0] = normal(GetParam(), {1, 1, 20, 32}, 7, 8);
  for (int64_t k = 0; k < other[0].numel(); ++k)
    other[0].set_f64(k, other[0].f64(k) * (1 + 4 * unit_roundoff(GetParam())));
  EXPECT_FALSE(passes(region, in, attention(other, DType::kF32, DType::kF32)));
}

// What of an image times a factor per channel a convolution of one pixel reads: rounded to `image`; sums to `sums`.
std::vector<double> gated(const std::vector<Tensor>& in, DType image, DType sums) {
  const int64_t channels = in[0].dims()[1], pixels = in[0].dims()[2], outputs = in[2].dims()[0];
  std::vector<double> y;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t p = 0; p < pixels; ++p) {
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c)
        sum =
            in_type(sums, sum + in_type(image, in[0].f64(c * pixels + p) * in[1].f64(c)) * in[2].f64(o * channels + c));
      y.push_back(sum);
    }
  return y;
}

// Exactly as often as the two operators by themselves round it.
TEST_P(Storage, AProductThatAConvolutionReadsIsRoundedOnce) {
  const std::string text =
      "graph { input x: T[1,576,20]; input g: T[1,576,1]; input w: T[24,576,1]; m = mul(x, g); y = conv(m, w); output "
      "y }";
  const auto inputs = [](DType t) {
    return std::vector<Tensor>{normal(t, {1, 576, 20}, 11), normal(t, {1, 576, 1}, 12),
                               normal(t, {24, 576, 1}, 13, 0.05)};
  };
  const ir::Graph narrow = region_of(text, GetParam()), wide = region_of(text, DType::kF32);
  const std::vector<Tensor> in = inputs(GetParam()), full = inputs(DType::kF32);
  EXPECT_TRUE(passes(narrow, in, gated(in, GetParam(), DType::kF32)));
  EXPECT_FALSE(passes(narrow, in, gated(in, DType::kF32, DType::kF32))) << "the two operators would round it";
  EXPECT_FALSE(passes(narrow, in, gated(in, GetParam(), GetParam()))) << "sums stay those of float32";
  EXPECT_TRUE(passes(wide, full, gated(full, DType::kF32, DType::kF32)));
  EXPECT_FALSE(passes(wide, full, gated(full, GetParam(), DType::kF32))) << "values in float32 are not rounded";
}

// What a region computes by more than one operator stays in the arithmetic's type, as does what no convolution reads.
TEST_P(Storage, NothingElseBeforeAConvolutionIsRounded) {
  const ir::Graph region = region_of(
      "graph { input x: T[1,576,20]; input g: T[1,576,1]; input w: T[24,576,1]; n = neg(x); m = mul(n, g); y = conv(m, "
      "w); output y }",
      GetParam());
  std::vector<Tensor> in = {normal(GetParam(), {1, 576, 20}, 11), normal(GetParam(), {1, 576, 1}, 12),
                            normal(GetParam(), {24, 576, 1}, 13, 0.05)};
  std::vector<double> exact = gated(in, DType::kF32, DType::kF32), rounded = gated(in, GetParam(), DType::kF32);
  for (std::vector<double>* y : {&exact, &rounded})
    for (double& v : *y) v = -v;
  EXPECT_TRUE(passes(region, in, exact));
  EXPECT_FALSE(passes(region, in, rounded));
}

}  // namespace
}  // namespace peri::tune
