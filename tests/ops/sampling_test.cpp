// Sampling at computed places, unpooling, unique elements and their kin: known values and what is refused.
#include <gtest/gtest.h>

#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

std::vector<double> sampled(const char* attributes, std::vector<double> places) {
  const int64_t n = static_cast<int64_t>(places.size());
  const std::string text =
      text_of("graph { input x: f32[1,1,4]; input g: f32[1,%d,1]; y = grid_sample(x, g) {%s}; output y }",
              static_cast<int>(n), attributes);
  return run_text(text,
                  std::vector<RefTensor>{floats({1, 1, 4}, {1, 2, 4, 8}), floats({1, n, 1}, std::move(places))})[0]
      .f;
}

TEST(GridSample, PlacesAndWhatLiesOutside) {
  // Centres stand at -0.75, -0.25, 0.25, 0.75, or with aligned corners at -1, -1/3, 1/3, 1.
  EXPECT_EQ(sampled("", {-0.75, 0, 0.75}), (std::vector<double>{1, 3, 8}));
  EXPECT_EQ(sampled("align_corners=1", {-1, 0, 1}), (std::vector<double>{1, 3, 8}));
  EXPECT_EQ(sampled("", {-1, 1, 5}), (std::vector<double>{0.5, 4, 0}));
  EXPECT_EQ(sampled("padding_mode=\"border\"", {-1, 1, 5}), (std::vector<double>{1, 8, 8}));
  EXPECT_EQ(sampled("mode=\"nearest\", padding_mode=\"reflection\"", {-1.25, 1.25, 1.75}),
            (std::vector<double>{1, 8, 4}));
  EXPECT_EQ(sampled("mode=\"nearest\"", {NAN, INFINITY, -INFINITY}), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(sampled("mode=\"cubic\"", {-0.25}), (std::vector<double>{2}));
}

TEST(GridSample, Refusals) {
  EXPECT_NE(refusal("graph { input x: i32[1,1,4]; input g: f32[1,2,1]; y = grid_sample(x, g); output y }").find("Cast"),
            std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[1,1,4]; input g: f32[1,2,2]; y = grid_sample(x, g); output y }").find("grid"),
            std::string::npos);
  EXPECT_NE(
      refusal("graph { input x: f32[1,1,4]; input g: f32[1,2,1]; y = grid_sample(x, g) {mode=\"area\"}; output y }")
          .find("mode"),
      std::string::npos);
}

TEST(Roi, BinsAndTheirSamples) {
  const std::vector<RefTensor> in = {floats({1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), floats({1, 4}, {0, 0, 4, 2})};
  const char* text =
      "graph { input x: f32[1,1,2,4]; input r: f32[1,4]; const b: i64[1] = [0]; y = roi_align(x, r, b) "
      "{output_height=1, output_width=2, %s}; output y }";
  expect_values(run_text(text_of(text, "sampling_ratio=2"), in)[0], {2.5, 4.5});
  expect_values(run_text(text_of(text, "sampling_ratio=1"), in)[0], {2.5, 4.5});
  const std::vector<RefTensor> pooled = {in[0], floats({2, 5}, {0, 0, 0, 3, 1, 0, 9, 9, 9, 9})};
  expect_values(
      run_text("graph { input x: f32[1,1,2,4]; input r: f32[2,5]; y = max_roi_pool(x, r) {pooled_shape=[1,2]}; "
               "output y }",
               pooled)[0],
      {5, 7, 0, 0});
}

TEST(Roi, WhatHasNoWeightIsNotRead) {
  // Samples at rows 0.5 and columns 0 and 2 of the elements; the second region lies outside, where samples are zero.
  const std::vector<RefTensor> in = {floats({1, 1, 2, 4}, {1, INFINITY, 3, NAN, 5, -INFINITY, 7, NAN}),
                                     floats({2, 4}, {-0.5, 0, 3.5, 2, 20, 20, 24, 22})};
  expect_values(
      run_text("graph { input x: f32[1,1,2,4]; input r: f32[2,4]; const b: i64[2] = [0, 0]; y = roi_align(x, r, "
               "b) {output_height=1, output_width=2, sampling_ratio=1}; output y }",
               in)[0],
      {3, 5, 0, 0});
}

TEST(DeformConv, OffsetsMoveTapsAndMasksScaleThem) {
  const std::vector<RefTensor> in = {floats({1, 1, 4}, {1, 2, 4, 8}), floats({1, 1, 2}, {1, 10}),
                                     floats({1, 2, 3}, {0, 0.5, -2, 0, 0, 0.5}), floats({1}, {100}),
                                     floats({1, 2, 3}, {1, 1, 1, 1, 0.5, 1})};
  const char* text =
      "graph { input x: f32[1,1,4]; input w: f32[1,1,2]; input o: f32[1,2,3]; input b: f32[1]; input m: f32[1,2,3]; y "
      "= "
      "deform_conv(x, w, o, b, m); output y }";
  // Taps at (0, 1), (1.5, 2), (0, 3.5): the last lies half outside.
  expect_values(run_text(text, in)[0], {121, 123, 141});
  EXPECT_NE(refusal("graph { input x: f32[1,1,4]; input w: f32[1,1,2]; input o: f32[1,2,4]; y = deform_conv(x, w, o); "
                    "output y }")
                .find("offset"),
            std::string::npos);
}

TEST(Det, KnownValues) {
  const std::vector<RefTensor> in = {floats({2, 3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 5})};
  expect_values(run_text("graph { input x: f32[2,3,3]; y = det(x); output y }", in)[0], {0, -5});
}

TEST(Solve, KnownValues) {
  // Without an exchange of rows the first pivot would be 0.
  const std::vector<RefTensor> in = {floats({2, 2}, {0, 2, 4, 1}), floats({2, 3}, {2, 0, 4, 6, 4, 0})};
  expect_values(run_text("graph { input a: f32[2,2]; input y: f32[2,3]; x = solve(a, y); output x }", in)[0],
                {1.25, 1, -0.5, 1, 0, 2});
  expect_values(
      run_text("graph { input a: f32[2,2]; input y: f32[2,3]; x = solve(a, y) {transposed=1}; output x }", in)[0],
      {2.75, 2, -0.5, 0.5, 0, 1});
  for (const char* text : {"graph { input a: f32[2,3]; input y: f32[2]; x = solve(a, y); output x }",
                           "graph { input a: f32[2,2,2]; input y: f32[2]; x = solve(a, y); output x }",
                           "graph { input a: f32[2,2]; input y: f32[3]; x = solve(a, y); output x }",
                           "graph { input a: f32[2,2]; input y: f32[]; x = solve(a, y); output x }"})
    EXPECT_NE(refusal(text), "") << text;
}

// Where the matrix may be singular within its own error, every answer may be right; where it is regular, a solution of
// another order of elimination lies within the radius.
TEST(Solve, RadiiHoldWhatElementsMayBe) {
  const char* text = "graph { input a: f32[2,2]; input y: f32[2]; x = solve(a, y); output x }";
  std::vector<RefTensor> in = {floats({2, 2}, {1, 1, 1, 1 + 0x1p-12}), floats({2}, {1, 2})};
  RefOptions options;
  options.u = 0x1p-24;
  const RefTensor regular = run_text(text, in, options)[0];
  EXPECT_GT(regular.radius[0], 1) << "x is 4097 to 24 bits of a matrix whose determinant has 12";
  EXPECT_LT(regular.radius[0], 256);
  in[0].f[3] = 1 + 0x1p-24;
  EXPECT_TRUE(std::isinf(run_text(text, in, options)[0].radius[0]));
}

TEST(Unique, SlicesOrderAndNan) {
  const std::vector<RefTensor> in = {floats({3, 2}, {2, 1, NAN, 0, 2, 1})};
  const auto out = run_text(
      "graph { input x: f32[3,2]; y, i, v, c = unique(x) {axis=0, sorted=0}; output y; output i; "
      "output v; output c }",
      in);
  expect_values(out[0], {2, 1, NAN, 0});
  EXPECT_EQ(out[1].i, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(out[2].i, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(out[3].i, (std::vector<int64_t>{2, 1}));
}

TEST(Col2Im, BlocksAddUp) {
  const std::vector<RefTensor> in = {floats({1, 2, 3}, {1, 2, 3, 10, 20, 30})};
  expect_values(
      run_text("graph { input x: f32[1,2,3]; const i: i64[1] = [4]; const b: i64[1] = [2]; y = col2im(x, i, b); "
               "output y }",
               in)[0],
      {1, 12, 23, 30});
  EXPECT_NE(refusal("graph { input x: f32[1,2,4]; const i: i64[1] = [4]; const b: i64[1] = [2]; y = col2im(x, i, b); "
                    "output y }")
                .find("blocks"),
            std::string::npos);
}

TEST(MaxUnpool, IndicesAreChecked) {
  const std::vector<RefTensor> in = {floats({1, 1, 1}, {7}), ints({1, 1, 1}, {9})};
  auto g = ir::parse_graph(
      "graph { input x: f32[1,1,1]; input i: i64[1,1,1]; y = max_unpool(x, i) {kernel_shape=[2]}; output y }");
  ASSERT_TRUE(g.ok());
  const auto out = run_reference(*g, in);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().text().find("index is out of range"), std::string::npos);
}

TEST(TensorScatter, GoesRoundOnlyWhereAsked) {
  const std::vector<RefTensor> in = {floats({1, 3, 1}, {1, 2, 3}), floats({1, 2, 1}, {8, 9}), ints({1}, {2})};
  const char* text =
      "graph { input p: f32[1,3,1]; input u: f32[1,2,1]; input w: i64[1]; y = tensor_scatter(p, u, w) {mode=\"%s\"}; "
      "output y }";
  expect_values(run_text(text_of(text, "circular"), in)[0], {9, 2, 8});
  auto g = ir::parse_graph(text_of(text, "linear"));
  ASSERT_TRUE(g.ok());
  EXPECT_FALSE(run_reference(*g, in).ok());
}

TEST(BitCast, BitsAndWidths) {
  EXPECT_EQ(run_text("graph { const x: f32[2] = [1.0, -0.0]; y = bit_cast(x) {to=13}; output y }", {})[0].i,
            (std::vector<int64_t>{0x3f800000, -2147483648LL}));
  EXPECT_NE(refusal("graph { input x: f32[2]; y = bit_cast(x) {to=14}; output y }").find("width"), std::string::npos);
}

// 1e-9 above the middle of two elements: float32 places it at the middle, whose even neighbour is the first.
TEST(Sampling, PlacesOfFloat64AreNotRounded) {
  for (const auto& [type, want] : {std::pair(DType::kF64, 8.0), std::pair(DType::kF32, 7.0)}) {
    const std::string t(dtype_name(type));
    const double at = (0.5 + 1e-9) * 2 / 3 - 1;
    const auto y =
        run_text("graph { input x: " + t + "[1,1,1,4]; input g: " + t +
                     "[1,1,1,2]; y = grid_sample(x, g) {mode=\"nearest\", align_corners=1}; output y }",
                 std::vector{floats({1, 1, 1, 4}, {7, 8, 9, 10}, type), floats({1, 1, 1, 2}, {at, -1}, type)});
    EXPECT_EQ(y[0].f[0], want) << t;
  }
}

// A sample between a 1 and a 0, all but at the 0: float32 rounds 1 less the place as a number near 1, so that what
// little is left of the 1 errs by as much as the whole.
TEST(RoiAlign, ALittleOfANeighbourErrsAsTheWhole) {
  const RefTensor y = run_text(
      "graph { input x: f32[1,1,1,4]; input r: f32[1,4]; const b: i64[1] = [0]; y = roi_align(x, r, b) "
      "{sampling_ratio=1}; output y }",
      std::vector<RefTensor>{floats({1, 1, 1, 4}, {0, 1, 0, 0}),
                             floats({1, 4}, {0, 0, static_cast<double>(4.99998F), 1})},
      {.u = 0x1p-24})[0];
  EXPECT_NEAR(y.f[0], 1e-5, 1e-6);
  const double at = static_cast<double>(4.99998F / 2 - 0.5F),
               in_float = 1 - static_cast<double>(static_cast<float>(at - 1));
  EXPECT_NEAR(in_float, y.f[0], y.radius[0]);
  EXPECT_GE(y.radius[0], 0x1p-25);
  EXPECT_LT(y.radius[0], 1e-5);
}

}  // namespace
}  // namespace peri::ops
