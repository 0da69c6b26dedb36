// Gather, scatter, top-k, resize, einsum and attention: contents of shapes, values of tricky cases, and what is
// refused.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

TEST(Gather, ContentsOfShapesPassThrough) {
  auto g = ir::parse_graph(
      "graph { input x: i64[batch,sequence,8]; s = shape(x); const i: i64[] = [-2]; const j: i64[2] = [0, 2]; "
      "a = gather(s, i); b = gather(s, j); output a; output b }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  const Status s = infer_graph(*g);
  ASSERT_TRUE(s.ok()) << s.error().text();
  ASSERT_TRUE(g->outputs[0]->content && g->outputs[1]->content);
  EXPECT_EQ(shape_text(*g->outputs[0]->content), "[sequence]");
  EXPECT_EQ(shape_text(*g->outputs[1]->content), "[batch,8]");
}

TEST(Gather, IndicesOutOfRangeAreRefused) {
  EXPECT_NE(refusal("graph { input x: f32[3]; const i: i64[1] = [3]; y = gather(x, i); output y }").find("[-3, 3)"),
            std::string::npos);
  auto g = ir::parse_graph("graph { input x: f32[3]; input i: i64[1]; y = gather(x, i); output y }");
  ASSERT_TRUE(g.ok() && infer_graph(*g).ok());
  const std::vector<RefTensor> in = {floats({3}, {1, 2, 3}), ints({1}, {-4})};
  EXPECT_FALSE(run_reference(*g, in).ok());
}

TEST(Scatter, LaterUpdatesMeetEarlierOnes) {
  const std::vector<RefTensor> in = {floats({4}, {1, 2, 3, 4}), ints({3}, {1, 1, -1}), floats({3}, {5, 7, 9})};
  const char* text =
      "graph { input x: f32[4]; input i: i64[3]; input u: f32[3]; y = scatter_elements(x, i, u) "
      "{reduction=\"%s\"}; output y }";
  expect_values(run_text(text_of(text, "none"), in)[0], {1, 7, 3, 9});
  expect_values(run_text(text_of(text, "add"), in)[0], {1, 14, 3, 13});
  expect_values(run_text(text_of(text, "mul"), in)[0], {1, 70, 3, 36});
  expect_values(run_text(text_of(text, "max"), in)[0], {1, 7, 3, 9});
  expect_values(run_text(text_of(text, "min"), in)[0], {1, 2, 3, 4});
  EXPECT_NE(refusal(text_of(text, "sum")).find("reduction"), std::string::npos);
}

TEST(Scatter, IntegersWrap) {
  const std::vector<RefTensor> in = {ints({1}, {200}, DType::kU8), ints({1, 1}, {0}), ints({1}, {100}, DType::kU8)};
  const auto y = run_text(
      "graph { input x: u8[1]; input i: i64[1,1]; input u: u8[1]; y = scatter_nd(x, i, u) "
      "{reduction=\"add\"}; output y }",
      in);
  EXPECT_EQ(y[0].i, (std::vector<int64_t>{44}));
}

TEST(TopK, TiesNanAndOrder) {
  const std::vector<RefTensor> in = {floats({6}, {2, std::nan(""), 3, 3, -1, 2})};
  const char* text =
      "graph { input x: f32[6]; const k: i64[1] = [4]; v, i = top_k(x, k) {largest=%d}; output v; output i }";
  EXPECT_EQ(run_text(text_of(text, 1), in)[1].i, (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_EQ(run_text(text_of(text, 0), in)[1].i, (std::vector<int64_t>{4, 0, 5, 2}));
  EXPECT_NE(
      refusal("graph { input x: f32[3]; const k: i64[1] = [4]; v, i = top_k(x, k); output v; output i }").find("k is"),
      std::string::npos);
}

TEST(Resize, SymbolicExtents) {
  EXPECT_EQ(
      shape_of(
          "graph { input x: f32[b,3,h,w]; const s: f32[4] = [1.0, 1.0, 2.0, 0.5]; y = resize(x, _, s); output y }"),
      "[b,3,2*h,floordiv(w, 2)]");
  EXPECT_EQ(
      shape_of("graph { input x: f32[b,3,4,4]; input like: f32[b,c,h,w]; s = shape(like); y = resize(x, _, _, s); "
               "output y }"),
      "[b,c,h,w]");
  EXPECT_NE(refusal("graph { input x: f32[1,4]; y = resize(x); output y }").find("scales"), std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[1,4]; const s: f32[2] = [1.0, 0.0]; y = resize(x, _, s); output y }")
                .find("scales"),
            std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[1,4]; const s: f32[1] = [1.0]; y = resize(x, _, s); output y }").find("axis"),
            std::string::npos);
}

TEST(Resize, NearestRounding) {
  const std::vector<RefTensor> in = {floats({4}, {0, 1, 2, 3})};
  const char* text =
      "graph { input x: f32[4]; const s: i64[1] = [8]; y = resize(x, _, _, s) "
      "{coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"%s\"}; output y }";
  expect_values(run_text(text_of(text, "floor"), in)[0], {0, 0, 1, 1, 2, 2, 3, 3});
  expect_values(run_text(text_of(text, "ceil"), in)[0], {0, 1, 1, 2, 2, 3, 3, 3});
  expect_values(run_text(text_of(text, "round_prefer_floor"), in)[0], {0, 0, 1, 1, 2, 2, 3, 3});
  expect_values(run_text(text_of(text, "round_prefer_ceil"), in)[0], {0, 1, 1, 2, 2, 3, 3, 3});
}

TEST(Resize, LinearHalfPixelRepeatsEdges) {
  const std::vector<RefTensor> in = {floats({2}, {0, 4})};
  expect_values(
      run_text("graph { input x: f32[2]; const s: i64[1] = [4]; y = resize(x, _, _, s) {mode=\"linear\"}; output y }",
               in)[0],
      {0, 1, 3, 4});
}

TEST(Einsum, MalformedEquationsAreRefused) {
  for (const char* equation :
       {"", "ij,jk->ik", "ij->ijk", "i.j->ij", "ij->ii", "ijk->i", "ij,->i", "i1->i", "......->i"})
    EXPECT_NE(refusal(text_of("graph { input x: f32[2,3]; y = einsum(x) {equation=\"%s\"}; output y }", equation)), "")
        << equation;
  EXPECT_EQ(shape_of("graph { input x: f32[b,h,s,4]; input y: f32[b,h,4,s]; z = einsum(x, y) "
                     "{equation=\"...ij,...jk\"}; output z }"),
            "[b,h,s,s]");
}

TEST(Matmul, ShapesAndRefusals) {
  EXPECT_EQ(shape_of("graph { input a: f32[b,1,s,64]; input b: f32[12,64,s]; y = matmul(a, b); output y }"),
            "[b,12,s,s]");
  EXPECT_EQ(shape_of("graph { input a: f32[4]; input b: f32[4]; y = matmul(a, b); output y }"), "[]");
  EXPECT_NE(refusal("graph { input a: f32[2,3]; input b: f32[4,2]; y = matmul(a, b); output y }").find("inner"),
            std::string::npos);
  EXPECT_NE(refusal("graph { input a: f32[]; input b: f32[4,2]; y = matmul(a, b); output y }").find("scalar"),
            std::string::npos);
}

TEST(Gemm, BetaZeroLeavesCUnread) {
  const std::vector<RefTensor> in = {floats({1, 1}, {2}), floats({1, 1}, {3}), floats({1}, {std::nan("")})};
  expect_values(run_text("graph { input a: f32[1,1]; input b: f32[1,1]; input c: f32[1]; y = gemm(a, b, c) {alpha=0.5, "
                         "beta=0.0}; output y }",
                         in)[0],
                {3});
}

TEST(Attention, HiddenRowsAndFiniteMasks) {
  const std::vector<RefTensor> in = {floats({2, 1}, {1, 1}), floats({2, 1}, {0, std::log(3)}), floats({2, 1}, {10, 20}),
                                     floats({2, 2}, {0, 0, -3.4028234663852886e38, 0})};
  const char* text =
      "graph { input q: f32[2,1]; input k: f32[2,1]; input v: f32[2,1]; input m: f32[2,2]; y = attention(q, "
      "k, v, m) {k_layout=\"sd\", q_layout=\"sd\", v_layout=\"sd\", y_layout=\"sd\"}; output y }";
  const auto y = run_text(text, in, {.u = 0x1p-24});
  expect_values(y[0], {17.5, 20});
  EXPECT_LT(y[0].r(0), 1e-4);
  EXPECT_LT(y[0].r(1), 1e-4);
}

TEST(BatchNormalization, TrainingTakesStatisticsOfTheBatch) {
  const std::vector<RefTensor> in = {floats({2, 1, 2}, {1, 3, 5, 7}), floats({1}, {2}), floats({1}, {10}),
                                     floats({1}, {8}), floats({1}, {1})};
  const auto out = run_text(
      "graph { input x: f32[2,1,2]; input s: f32[1]; input b: f32[1]; input m: f32[1]; input v: f32[1]; y, n, w = "
      "batch_normalization(x, s, b, m, v) {epsilon=0.0, momentum=0.75, training_mode=1}; output y; output n; output w "
      "}",
      in);
  ASSERT_EQ(out.size(), 3u);
  const double unit = 2 / std::sqrt(5);  // mean 4, variance 5
  expect_values(out[0], {10 - 3 * unit, 10 - unit, 10 + unit, 10 + 3 * unit});
  expect_values(out[1], {7});
  expect_values(out[2], {2});
  EXPECT_NE(refusal("graph { input x: f32[1,2]; input s: f32[2]; y, n, w = batch_normalization(x, s, s, s, s); output "
                    "y; output n; output w }")
                .find("training mode"),
            std::string::npos);
}

}  // namespace
}  // namespace peri::ops
