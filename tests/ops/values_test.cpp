// Known values of ops whose definitions have corners: signs, wrapping, rounding, clamping, empty sets, NaN.
#include <climits>

#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

constexpr double kInf = INFINITY;
constexpr double kNan = NAN;

// Integers or bools of the only output of a graph without inputs.
std::vector<int64_t> ints_from(std::string_view text) { return run_text(text, {})[0].i; }
std::vector<double> floats_from(std::string_view text) { return run_text(text, {})[0].f; }
void expect_floats(std::string_view text, const std::vector<double>& want) {
  SCOPED_TRACE(text);
  const std::vector<double> got = floats_from(text);
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    if (std::isnan(want[k]))
      EXPECT_TRUE(std::isnan(got[k])) << k << ": " << got[k];
    else if (std::isinf(want[k]) || want[k] == 0)
      EXPECT_TRUE(got[k] == want[k] && std::signbit(got[k]) == std::signbit(want[k])) << k << ": " << got[k];
    else
      EXPECT_NEAR(got[k], want[k], 1e-6 * std::fabs(want[k])) << k;
  }
}
using Ints = std::vector<int64_t>;

TEST(Values, IntegersWrapAndTruncate) {
  EXPECT_EQ(
      ints_from("graph { const a: i8[3] = [127, -128, 100]; const b: i8[3] = [1, -1, 100]; y = add(a, b); output y }"),
      (Ints{-128, 127, -56}));
  EXPECT_EQ(ints_from("graph { const a: u8[2] = [1, 200]; const b: u8[2] = [2, 3]; y = sub(a, b); output y }"),
            (Ints{255, 197}));
  EXPECT_EQ(ints_from("graph { const a: i32[4] = [-7, 7, -2147483648, 5]; const b: i32[4] = [2, -2, -1, 0]; y = div(a, "
                      "b); output y }"),
            (Ints{-3, -3, INT_MIN, 0}));
  EXPECT_EQ(
      ints_from("graph { const a: u64[1] = [18446744073709551615]; const b: u64[1] = [2]; y = div(a, b); output y }"),
      (Ints{INT64_MAX}));
  EXPECT_EQ(
      ints_from(
          "graph { const a: i32[4] = [-7, 7, -7, 7]; const b: i32[4] = [3, -3, -3, 3]; y = mod(a, b); output y }"),
      (Ints{2, -2, -1, 1}));
  EXPECT_EQ(ints_from("graph { const a: i32[4] = [-7, 7, -7, 7]; const b: i32[4] = [3, -3, -3, 3]; y = mod(a, b) "
                      "{fmod=1}; output y }"),
            (Ints{-1, 1, -1, 1}));
  EXPECT_EQ(
      ints_from("graph { const x: i32[4] = [2, -3, 0, 2]; const y: i32[4] = [31, 3, 0, -1]; z = pow(x, y); output z }"),
      (Ints{INT_MIN, -27, 1, 0}));
  EXPECT_EQ(ints_from("graph { const x: i64[2] = [10, 9]; const y: f32[2] = [-1.0, 0.5]; z = pow(x, y); output z }"),
            (Ints{0, 3}));
  EXPECT_EQ(ints_from("graph { const x: i8[2] = [-128, -5]; y = abs(x); output y }"), (Ints{-128, 5}));
}

TEST(Values, ShiftsAsTheDefinitionHasThem) {
  EXPECT_EQ(ints_from("graph { const a: i8[5] = [-128, -1, 64, 1, -1]; const b: i8[5] = [7, 8, 1, -1, -1]; y = "
                      "bit_shift(a, b) {direction=\"RIGHT\"}; output y }"),
            (Ints{-1, -1, 32, 0, -1}));
  EXPECT_EQ(ints_from("graph { const a: i8[4] = [64, 1, 1, -1]; const b: i8[4] = [1, 8, -1, 7]; y = bit_shift(a, b) "
                      "{direction=\"LEFT\"}; output y }"),
            (Ints{-128, 0, 0, -128}));
  EXPECT_EQ(ints_from("graph { const a: u8[2] = [128, 255]; const b: u8[2] = [7, 8]; y = bit_shift(a, b) "
                      "{direction=\"RIGHT\"}; output y }"),
            (Ints{1, 0}));
}

TEST(Values, FloatCorners) {
  expect_floats(
      "graph { const a: f32[6] = [-0.0, 5.0, -5.0, 1.0, inf, 3.0]; const b: f32[6] = [3.0, -3.0, inf, -inf, 2.0, 0.0]; "
      "y = mod(a, b); output y }",
      {0, -1, kInf, -kInf, kNan, kNan});
  expect_floats(
      "graph { const a: f32[4] = [-5.0, 5.0, 5.0, inf]; const b: f32[4] = [3.0, -3.0, inf, 2.0]; y = mod(a, b) "
      "{fmod=1}; output y }",
      {-2, 2, 5, kNan});
  expect_floats("graph { const x: f32[7] = [0.5, 1.5, 2.5, -0.5, -1.5, -0.0, 2.4]; y = round(x); output y }",
                {0, 2, 2, -0.0, -2, -0.0, 2});
  expect_floats(
      "graph { const a: f32[3] = [nan, 1.0, -inf]; const b: f32[3] = [1.0, nan, inf]; y = min(a, b); output y }",
      {kNan, kNan, -kInf});
  expect_floats(
      "graph { const x: f32[3] = [-3.0, 0.2, nan]; const a: f32[] = [1.0]; const b: f32[] = [0.5]; y = clip(x, a, b); "
      "output y }",
      {0.5, 0.5, kNan});
  expect_floats("graph { const x: f32[4] = [nan, 1.0, 2.0, -9.0]; y = thresholded_relu(x); output y }", {0, 0, 2, 0});
  expect_floats("graph { const x: f32[3] = [inf, -inf, 30.0]; y = softplus(x); output y }", {kInf, 0, 30});
  expect_floats("graph { const x: f32[3] = [0.0, -inf, 1.0]; y = log(x); output y }", {-kInf, kNan, 0});
  expect_floats("graph { const x: f32[5] = [-inf, -1000.0, 0.0, 1000.0, inf]; y = sigmoid(x); output y }",
                {0, 0, 0.5, 1, 1});
}

TEST(Values, SoftmaxOfExtremes) {
  expect_floats("graph { const x: f32[3] = [1000.0, 1000.0, -inf]; y = softmax(x); output y }", {0.5, 0.5, 0});
  expect_floats("graph { const x: f32[2] = [-inf, -inf]; y = softmax(x); output y }", {kNan, kNan});
  expect_floats("graph { const x: f32[2,2] = [0.0, 1.0, 5.0, 5.0]; y = hardmax(x); output y }", {0, 1, 1, 0});
}

TEST(Values, ReductionsOfNothing) {
  const auto reduced = [](const char* op) {
    return "graph { const x: f32[2,0] = []; const a: i64[1] = [1]; y = " + std::string(op) +
           "(x, a) {keepdims=0}; output y }";
  };
  for (const auto& [op, want] : std::vector<std::pair<const char*, double>>{{"reduce_sum", 0},
                                                                            {"reduce_mean", kNan},
                                                                            {"reduce_max", -kInf},
                                                                            {"reduce_min", kInf},
                                                                            {"reduce_prod", 1},
                                                                            {"reduce_l1", 0},
                                                                            {"reduce_l2", 0},
                                                                            {"reduce_log_sum", -kInf},
                                                                            {"reduce_log_sum_exp", -kInf},
                                                                            {"reduce_sum_square", 0}})
    expect_floats(reduced(op), {want, want});
  EXPECT_EQ(ints_from("graph { const x: i8[0] = []; y = reduce_max(x) {keepdims=0}; output y }"), (Ints{-128}));
}

TEST(Values, ReductionsOfIntegersAndBools) {
  EXPECT_EQ(ints_from("graph { const x: i32[3] = [-1, -2, -4]; y = reduce_mean(x); output y }"), (Ints{-2}));
  EXPECT_EQ(ints_from("graph { const x: i32[2] = [2147483647, 1]; y = reduce_sum(x); output y }"), (Ints{INT_MIN}));
  EXPECT_EQ(ints_from("graph { const x: i32[3] = [2147483647, 2147483647, 5]; y = reduce_mean(x); output y }"),
            (Ints{1431655766}));
  EXPECT_EQ(ints_from("graph { const x: i8[3] = [-128, -128, -1]; y = reduce_mean(x); output y }"), (Ints{-85}));
  EXPECT_EQ(
      ints_from("graph { const x: bool[2,2] = [0, 1, 0, 0]; const a: i64[1] = [1]; y = reduce_max(x, a); output y }"),
      (Ints{1, 0}));
  EXPECT_EQ(
      ints_from("graph { const x: i64[2] = [-3, 4]; y = reduce_sum_square(x) {noop_with_empty_axes=1}; output y }"),
      (Ints{9, 16}));
  EXPECT_EQ(ints_from("graph { const x: f32[5] = [1.0, nan, 9.0, nan, 9.0]; y = arg_max(x); output y }"), (Ints{1}));
  EXPECT_EQ(
      ints_from("graph { const x: f32[4] = [2.0, 9.0, 9.0, 1.0]; y = arg_max(x) {select_last_index=1}; output y }"),
      (Ints{2}));
}

TEST(Values, CastsBetweenFormats) {
  EXPECT_EQ(ints_from("graph { const x: f32[4] = [1.9, -1.9, 300.0, nan]; y = cast(x) {to=11}; output y }"),
            (Ints{1, -1, 44, 0}));
  EXPECT_EQ(ints_from("graph { const x: f32[3] = [0.0, nan, -0.5]; y = cast(x) {to=23}; output y }"), (Ints{0, 1, 1}));
  EXPECT_EQ(ints_from("graph { const x: i64[2] = [-1, 300]; y = cast(x) {to=15}; output y }"), (Ints{255, 44}));
  expect_floats("graph { const x: f32[5] = [500.0, -inf, nan, 0.001, 17.0]; y = cast(x) {to=5}; output y }",
                {448, -448, kNan, 0.001953125, 16});
  expect_floats("graph { const x: f32[3] = [500.0, -inf, 448.0]; y = cast(x) {to=5, saturate=0}; output y }",
                {kNan, kNan, 448});
  expect_floats("graph { const x: f32[3] = [1e6, -inf, 57344.0]; y = cast(x) {to=7, saturate=0}; output y }",
                {kInf, -kInf, 57344});
  expect_floats("graph { const x: f32[3] = [70000.0, 65519.0, 1e-8]; y = cast(x) {to=3}; output y }", {kInf, 65504, 0});
  expect_floats("graph { const x: i64[1] = [16777217]; y = cast(x) {to=1}; output y }", {16777216});
  expect_floats("graph { const x: string[4] = [\"1.5\", \"-1e3\", \"NaN\", \" +INF \"]; y = cast(x) {to=1}; output y }",
                {1.5, -1000, kNan, kInf});
  EXPECT_EQ(run_text("graph { const x: f32[3] = [0.1, nan, -inf]; y = cast(x) {to=24}; output y }", {})[0].s,
            (std::vector<std::string>{"0.1", "NaN", "-INF"}));
}

// Positions are asked of a value whose size the run decides: all of what it is made of is made.
TEST(Values, PositionsOfSizesThatTheDataDecide) {
  RefOptions options;
  options.positions = {3};
  const std::vector<RefTensor> n = {ints({1}, {2})};
  const RefTensor y = run_text(
      "graph { input n: i64[1]; c = constant_of_shape(n); const k: f32[1] = [5.0]; y = concat(c, c, k) {axis=0}; "
      "output y }",
      n, options)[0];
  EXPECT_EQ(y.dims, (std::vector<int64_t>{5}));
  EXPECT_EQ(y.f[3], 0);
}

TEST(Values, PaddingModes) {
  expect_floats(
      "graph { const x: f32[3] = [1.0, 2.0, 3.0]; const p: i64[2] = [4, 3]; y = pad(x, p) {mode=\"reflect\"}; output y "
      "}",
      {1, 2, 3, 2, 1, 2, 3, 2, 1, 2});
  expect_floats(
      "graph { const x: f32[3] = [1.0, 2.0, 3.0]; const p: i64[2] = [2, 4]; y = pad(x, p) {mode=\"wrap\"}; output y }",
      {2, 3, 1, 2, 3, 1, 2, 3, 1});
  expect_floats(
      "graph { const x: f32[4] = [1.0, 2.0, 3.0, 4.0]; const p: i64[2] = [-1, 2]; y = pad(x, p) {mode=\"edge\"}; "
      "output y }",
      {2, 3, 4, 4, 4});
}

TEST(Values, SlicesFromBothEnds) {
  constexpr const char* kText = "graph { const x: i64[5] = [0, 1, 2, 3, 4]; const a: i64[1] = [";
  const auto sliced = [&](std::string start, std::string end, std::string step) {
    return ints_from(kText + start + "]; const e: i64[1] = [" + end + "]; const k: i64[1] = [0]; const t: i64[1] = [" +
                     step + "]; y = slice(x, a, e, k, t); output y }");
  };
  EXPECT_EQ(sliced("-2", "100", "1"), (Ints{3, 4}));
  EXPECT_EQ(sliced("100", "-100", "-2"), (Ints{4, 2, 0}));
  EXPECT_EQ(sliced("3", "0", "-1"), (Ints{3, 2, 1}));
  EXPECT_EQ(sliced("-100", "2", "1"), (Ints{0, 1}));
  EXPECT_EQ(sliced("4", "1", "1"), (Ints{}));
  EXPECT_EQ(sliced("0", "-9223372036854775808", "-1"), (Ints{0}));
}

TEST(Values, OneHotOutsideIsOff) {
  EXPECT_EQ(ints_from("graph { const i: i64[4] = [0, -1, 3, -4]; const d: i64[] = [3]; const v: i64[2] = [5, 9]; y = "
                      "one_hot(i, d, v); output y }"),
            (Ints{9, 5, 5, 5, 5, 9, 5, 5, 5, 5, 5, 5}));
}

TEST(Values, RunningSums) {
  EXPECT_EQ(ints_from("graph { const x: i64[4] = [1, 2, 3, 4]; const a: i64[] = [0]; y = cum_sum(x, a) {exclusive=1, "
                      "reverse=1}; output y }"),
            (Ints{9, 7, 4, 0}));
  EXPECT_EQ(ints_from("graph { const x: i64[4] = [1, 2, 3, 4]; const a: i64[] = [-1]; y = cum_prod(x, a); output y }"),
            (Ints{1, 2, 6, 24}));
}

TEST(Values, AReductionOfNothingAllocatesNothing) {
  for (const char* order : {"f32[0,72057594037927936]", "f32[72057594037927936,0]"}) {
    const std::string text =
        text_of("graph { const x: %s = []; const a: i64[2] = [0, 1]; y = reduce_sum(x, a); output y }", order);
    EXPECT_EQ(floats_from(text), std::vector<double>{0}) << order;
  }
  EXPECT_EQ(floats_from("graph { const x: f32[0,3] = []; const a: i64[1] = [0]; y = reduce_sum(x, a); output y }"),
            (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(
      floats_from("graph { const x: f32[0,3] = []; const a: i64[1] = [1]; y = reduce_sum(x, a); output y }").empty());
}

// By ONNX Runtime: of two classes the score of the pair and its negative; the positive one is for the first.
TEST(Values, SupportVectorsVoteByPairs) {
  EXPECT_EQ(
      ints_from("graph { const x: f32[3,2] = [1.0, 2.0, -1.0, 0.5, 0.0, 0.0]; y, z = svm_classifier(x) "
                "{classlabels_ints=[10, 11], kernel_type=\"LINEAR\", vectors_per_class=[1, 1], coefficients=[1.0, "
                "-1.0], rho=[-0.25], support_vectors=[1.0, 0.0, 0.0, 1.0]}; output y }"),
      (Ints{11, 11, 11}));
  expect_floats(
      "graph { const x: f32[2,2] = [1.0, 2.0, -1.0, -3.0]; y, z = svm_classifier(x) {classlabels_ints=[10, 11], "
      "vectors_per_class=[1, 1], coefficients=[1.0, -1.0], rho=[-0.25], support_vectors=[1.0, 0.0, 0.0, 1.0]}; output "
      "z }",
      {1.25, -1.25, -1.75, 1.75});
  expect_floats(
      "graph { const x: f32[2,1] = [1.0, -2.0]; y = svm_regressor(x) {n_supports=2, kernel_type=\"POLY\", "
      "kernel_params=[2.0, 1.0, 2.0], coefficients=[1.0, -0.5], support_vectors=[1.0, 0.5], rho=[0.125]}; output y }",
      {9 - 2 + 0.125, 9 - 0.5 + 0.125});
  expect_floats(
      "graph { const x: f32[2,1] = [1.0, -2.0]; y = svm_regressor(x) {coefficients=[1.0], rho=[0.5], one_class=1}; "
      "output y }",
      {1, -1});
}

}  // namespace
}  // namespace peri::ops
