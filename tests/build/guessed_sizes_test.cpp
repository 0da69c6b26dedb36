// A small file cannot make a long build by leaving sizes open: what is guessed for them stays cheap to try and to
// judge.
#include <gtest/gtest.h>

#include "compile/compile.hpp"
#include "ir/graph.hpp"
#include "judge/sizes.hpp"

namespace peri::compile {
namespace {

ir::Graph parsed(const std::string& text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}

double elements(const ir::Graph& g, const DimBinding& sizes) {
  double n = 1;
  for (const Dim& d : *g.inputs[0]->type.shape) n *= static_cast<double>(d.eval(sizes).value());
  return n;
}

TEST(GuessedSizes, AGuessIsCheapToTry) {
  const auto g = parsed("graph { input x: f32[n,a,b,c,d]; y = relu(x); output y }");
  const auto sizes = resolve_dims(g, {}, {}).value();
  EXPECT_LE(elements(g, sizes), 1 << 22);
  EXPECT_GE(elements(g, sizes), 1 << 18);
  double judged = 0;
  for (const DimBinding& s : judge::sizes_to_judge(g, sizes, {})) judged += elements(g, s);
  EXPECT_LE(judged, 1 << 23);
}

TEST(GuessedSizes, ImagesAndTextsAreTriedAt128) {
  const auto image = parsed("graph { input x: f32[n,3,h,w]; y = relu(x); output y }");
  EXPECT_EQ(resolve_dims(image, {}, {}).value(), (DimBinding{{"n", 1}, {"h", 128}, {"w", 128}}));
  const auto scores = parsed("graph { input x: f32[n,12,s,s]; y = relu(x); output y }");
  EXPECT_EQ(resolve_dims(scores, {}, {}).value(), (DimBinding{{"n", 1}, {"s", 128}}));
}

TEST(GuessedSizes, ABatchIsWhatIsCalledSo) {
  const auto seq_major = parsed("graph { input x: f32[seq,batch_size,5]; y = relu(x); output y }");
  EXPECT_EQ(resolve_dims(seq_major, {}, {}).value(), (DimBinding{{"seq", 128}, {"batch_size", 1}}));
  EXPECT_EQ(resolve_dims(seq_major, {{"batch", 4}}, {}).value(), (DimBinding{{"seq", 128}, {"batch_size", 4}}));
  const auto ids = parsed("graph { input x: i64[words,Batch]; y = neg(x); output y }");
  EXPECT_EQ(resolve_dims(ids, {}, {}).value(), (DimBinding{{"words", 128}, {"Batch", 1}}));
  EXPECT_FALSE(resolve_dims(ids, {{"sequence", 4}}, {}).ok());
  const auto made_up = parsed("graph { input batch: f32[batch_dim_0,batch_dim_1]; y = relu(batch); output y }");
  EXPECT_EQ(resolve_dims(made_up, {}, {}).value(), (DimBinding{{"batch_dim_0", 1}, {"batch_dim_1", 128}}));
}

TEST(GuessedSizes, WhatIsStatedIsTakenAsItIs) {
  const auto g = parsed("graph { input x: f32[n,a,b,c,d]; y = relu(x); output y }");
  const auto sizes = resolve_dims(g, {{"a", 300}}, {}).value();
  EXPECT_EQ(sizes.at("a"), 300);
}

// Half of the rows, twice: as many as the input has where their number is even, and at 1 the broadcast of one row to
// two.
TEST(GuessedSizes, ASizeAtWhichOneIsBroadcastIsJudged) {
  const auto g = parsed(
      "graph { input x: f32[1,4,h,8]; const w: f32[4,4,3,1] = seeded(0.2, 1); p = conv(x, w) {strides=[2,1], "
      "pads=[1,0,1,0]}; r = concat(p, p) {axis=2}; a = add(r, x); const n: i64[1] = [2]; y = reduce_mean(a, n); output "
      "y }");
  EXPECT_EQ(judge::sizes_to_judge(g, {{"h", 6}}, {}), (std::vector<DimBinding>{{{"h", 6}}, {{"h", 1}}, {{"h", 12}}}));
}

}  // namespace
}  // namespace peri::compile
