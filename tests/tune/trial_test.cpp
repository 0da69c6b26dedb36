// What candidates are tried on: data of seed and position, weights by fan-in, a reference within its budget, memory
// between guards.
#include "tune/trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tune/guarded.hpp"

namespace peri::tune {
namespace {

ir::Graph parsed(std::string_view text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}

double deviation(const Tensor& t) {
  double sum = 0;
  for (float v : t.as<float>()) sum += double{v} * double{v};
  return std::sqrt(sum / static_cast<double>(t.numel()));
}

TEST(Arguments, EachElementIsAFunctionOfSeedAndPosition) {
  const ir::Graph g = parsed("graph { input x: f32[64,100]; input z: f32[64,100]; y = add(x, z); output y }");
  const auto arguments = make_arguments(g, 11);
  ASSERT_TRUE(arguments.ok());
  double sum = 0;
  for (int64_t k = 0; k < 6400; ++k) {
    EXPECT_EQ((*arguments)[0].f64(k), seeded_normal(11, k));
    EXPECT_EQ((*arguments)[1].f64(k), seeded_normal(12, k));
    sum += (*arguments)[0].f64(k) * (*arguments)[1].f64(k);
  }
  EXPECT_NEAR(deviation((*arguments)[0]), 1, 0.05);
  EXPECT_LT(std::fabs(sum / 6400), 0.05) << "arguments are independent";
}

TEST(Arguments, WeightsHaveTheSquareRootOfTheirFanIn) {
  const auto weight = [](std::string_view text) {
    const auto arguments = make_arguments(parsed(text), 3);
    EXPECT_TRUE(arguments.ok());
    return deviation((*arguments)[1]);
  };
  EXPECT_NEAR(weight("graph { input x: f32[2,400]; input w: f32[400,30]; y = matmul(x, w); output y }"), 0.05, 0.002);
  EXPECT_NEAR(weight("graph { input x: f32[2,400]; input w: f32[30,400]; y = gemm(x, w) {transB=1}; output y }"), 0.05,
              0.002);
  EXPECT_NEAR(weight("graph { input x: f32[1,25,9,9]; input w: f32[40,25,4,4]; y = conv(x, w); output y }"), 0.05,
              0.002);
  EXPECT_NEAR(weight("graph { input x: f32[1,100,5,5]; input w: f32[100,8,4,4]; y = conv_transpose(x, w) "
                     "{strides=[2,2]}; output y }"),
              0.05, 0.002);
  EXPECT_NEAR(
      weight("graph { input x: f32[2,400]; input w: f32[400,400]; p = matmul(x, w); y = matmul(p, w); output y }"),
      0.05, 0.002);
  // One that is added too is no weight only.
  EXPECT_NEAR(weight("graph { input x: f32[40,40]; input w: f32[40,40]; p = matmul(x, w); y = add(p, w); output y }"),
              1, 0.05);
}

TEST(Arguments, NormalisationsGetScalesNearOneAndPositiveVariances) {
  const auto arguments = make_arguments(
      parsed(
          "graph { input x: f32[2,300,3]; input s: f32[300]; input b: f32[300]; input m: f32[300]; input v: f32[300]; "
          "y = batch_normalization(x, s, b, m, v); output y }"),
      5);
  ASSERT_TRUE(arguments.ok());
  for (int64_t k = 0; k < 300; ++k) {
    EXPECT_GT((*arguments)[1].f64(k), 0.2);
    EXPECT_LT((*arguments)[1].f64(k), 1.8);
    EXPECT_GT((*arguments)[4].f64(k), 0.2);
  }
}

TEST(Reference, PositionsShrinkWithTheirCost) {
  const ir::Graph g =
      parsed("graph { input x: f32[1,1,1000,1000]; y = average_pool(x) {kernel_shape=[700,700]}; output y }");
  const auto arguments = make_arguments(g, 7);
  const auto expected = make_expected(g, *arguments, 1, 7);
  ASSERT_TRUE(expected.ok()) << expected.error().text();
  EXPECT_GE(expected->positions.size(), static_cast<size_t>(kMinPositions));
  EXPECT_LE(static_cast<double>(expected->positions.size()) * 490000, kPositionFlops * 1.1);
  EXPECT_EQ(expected->positions.front(), 0);
  EXPECT_EQ(expected->positions.back(), 301 * 301 - 1);
}

TEST(Reference, WhatNoBudgetPaysForIsRefused) {
  const ir::Graph g = parsed(
      "graph { input x: f32[1300,1300]; input w: f32[1300,1300]; p = matmul(x, w); m = reduce_mean(p); r = relu(p); y "
      "= sub(r, m); output y }");
  const auto expected = make_expected(g, *make_arguments(g, 7), 1, 7);
  ASSERT_FALSE(expected.ok());
  EXPECT_EQ(expected.error().kind, ErrorKind::kRefused);
}

TEST(Reference, SeveralExpensiveOutputsAreHeldAgainstPositionsOfEach) {
  const ir::Graph g = parsed(
      "graph { input x: f32[300,400]; input w: f32[400,300]; p = matmul(x, w); y = relu(p); output p; output y }");
  const auto arguments = make_arguments(g, 7);
  const auto expected = make_expected(g, *arguments, 1, 7);
  ASSERT_TRUE(expected.ok()) << expected.error().text();
  ASSERT_EQ(expected->each.size(), 2u);
  for (const Expected& e : expected->each) EXPECT_GT(e.positions.size(), 1000u);
  EXPECT_EQ(position_count(*expected),
            static_cast<int64_t>(expected->each[0].positions.size() + expected->each[1].positions.size()));
  std::vector<Tensor> got = {*Tensor::zeros(DType::kF32, {300, 300}), *Tensor::zeros(DType::kF32, {300, 300})};
  const auto x = (*arguments)[0].as<float>(), w = (*arguments)[1].as<float>();
  for (size_t i = 0; i < 300; ++i)
    for (size_t j = 0; j < 300; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 400; ++k) sum += x[i * 400 + k] * w[k * 300 + j];
      got[0].mutable_as<float>()[i * 300 + j] = sum;
      got[1].mutable_as<float>()[i * 300 + j] = std::max(sum, 0.0f);
    }
  const auto right = compare(*expected, got);
  ASSERT_TRUE(right.ok()) << right.error().text();
  EXPECT_GT(*right, 0);
  const int64_t at = expected->each[1].positions[77];
  got[1].mutable_as<float>()[static_cast<size_t>(at)] += 1;
  const auto wrong = compare(*expected, got);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().text().find(format("output 1 differs at %lld", static_cast<long long>(at))),
            std::string::npos)
      << wrong.error().text();
}

// x < mean(x) where one x is the mean but for round-off: that element is open, and no other.
TEST(Reference, ATieInsideARegionIsOpenAndTheRestIsJudged) {
  const ir::Graph g = parsed(
      "graph { input x: f32[1,4]; const c: i64[1] = [1]; m = reduce_mean(x, c); l = less(x, m); "
      "const a: f32[1] = [1]; const b: f32[1] = [2]; y = where(l, a, b); output y }");
  const std::vector<float> x = {0.1f, 0.2f, 0.3f, 0.2f};
  const std::vector<Tensor> arguments = {Tensor::of_f32({1, 4}, x)};
  const auto expected = expected_at(g, arguments, 1, {});
  ASSERT_TRUE(expected.ok()) << expected.error().text();
  const auto verdict = [&](std::vector<float> y) {
    const Tensor got = Tensor::of_f32({1, 4}, y);
    return compare(*expected, {&got, 1}).ok();
  };
  EXPECT_TRUE(verdict({1, 2, 2, 2}));
  EXPECT_TRUE(verdict({1, 1, 2, 1}));
  EXPECT_FALSE(verdict({2, 2, 2, 2})) << "0.1 is below the mean";
  EXPECT_FALSE(verdict({1, 2, 1, 2})) << "0.3 is not";
  EXPECT_FALSE(verdict({1, 7, 2, 2})) << "neither side of the tie";
  EXPECT_FALSE(verdict({1, NAN, 2, 2}));
}

// An infinity is right only where the exact answer lies beyond the largest number, or its radius does.
TEST(Reference, TheLargestNumberIsNoInfinity) {
  const auto takes_infinity = [](double want, double radius) {
    Expected e;
    e.out.push_back(ops::make_ref(DType::kF32, {1}));
    e.out[0].f = {want};
    e.out[0].radius = {radius};
    const std::vector<float> y = {want < 0 ? -INFINITY : INFINITY};
    const Tensor got = Tensor::of_f32({1}, y);
    return compare(e, {&got, 1}).ok();
  };
  EXPECT_FALSE(takes_infinity(-0x1.fffffep127, 0)) << "the maximum of nothing, exactly";
  EXPECT_FALSE(takes_infinity(1e30, 1));
  EXPECT_TRUE(takes_infinity(-0x1.fffffep127, 1e32));
  EXPECT_TRUE(takes_infinity(1e39, 0));
}

TEST(Guards, AWriteOnEitherSideIsSeenAndOneInsideIsNot) {
  for (size_t bytes : {0u, 1u, 63u, 64u, 4097u}) {
    auto g = Guarded::make(bytes);
    ASSERT_TRUE(g.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(g->data()) % 64, 0u);
    EXPECT_EQ(g->written(), "");
    std::byte* data = g->data();
    for (const auto& [at, where] : {std::pair(static_cast<std::ptrdiff_t>(bytes), "past the end of"),
                                    {static_cast<std::ptrdiff_t>(bytes + Guarded::kGuardBytes) - 1, "past the end of"},
                                    {std::ptrdiff_t{-1}, "before the start of"},
                                    {-static_cast<std::ptrdiff_t>(Guarded::kGuardBytes), "before the start of"}}) {
      const std::byte held = data[at];
      data[at] = std::byte{0};
      EXPECT_EQ(g->written(), where) << bytes << " " << at;
      data[at] = held;
    }
    EXPECT_EQ(g->written(), "");
  }
}

TEST(Guards, WhatIsReadOutsideIsNoNumber) {
  auto g = Guarded::make(16);
  ASSERT_TRUE(g.ok());
  for (std::ptrdiff_t at : {-4, 16, 20}) {
    float f;
    std::memcpy(&f, g->data() + at, sizeof f);
    EXPECT_TRUE(std::isnan(f));
  }
  double d;
  std::memcpy(&d, g->data() + 16, sizeof d);
  EXPECT_TRUE(std::isnan(d));
}

// What is no rival of the fastest is timed by the least samples, whatever is left of the budget.
TEST(Timing, WhatIsFarFromTheFastestIsToldByTheLeastSamples) {
  const ir::Graph g = parsed("graph { input x: f32[64,100]; y = relu(x); output y }");
  const kernels::Kernel& kernel = *kernels::find("elementwise");
  TrialPlaces places(1);
  ThreadPool pool(1);
  const auto offers = kernel.offer({&g, {false}}, places.host().target);
  ASSERT_TRUE(offers.ok());
  auto arguments = make_arguments(g, 7);
  ASSERT_TRUE(arguments.ok());
  auto given = Given::make(std::move(*arguments), {false});
  ASSERT_TRUE(given.ok());
  Candidate c{&kernel, offers->front()};
  c.offer.inputs.resize(1);
  c.offer.outputs.resize(1);
  const auto trial = Trial::create(g, {false}, c, &*given, places.host(), &pool);
  ASSERT_TRUE(trial.ok()) << trial.error().text();
  const auto samples = [&](double best_ms) {
    Evidence e;
    EXPECT_TRUE((*trial)->time(1e5, 3, {}, &e, 0, best_ms).ok());
    return e.samples;
  };
  EXPECT_LE(samples(-1), 64) << "nothing is known beside it, and a budget of minutes";
  EXPECT_EQ(samples(1e-9), 3);
}

}  // namespace
}  // namespace peri::tune
