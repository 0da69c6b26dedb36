// Folding evaluates what is cheap and leaves what is expensive; an interruption ends the passes.
#include <gtest/gtest.h>

#include "passes/pipeline.hpp"

namespace peri::passes {
namespace {

ir::Graph folded(std::string_view text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  if (!g.ok()) return {};
  const auto report = run_pass(*find("fold_constants"), *g);
  EXPECT_TRUE(report.ok());
  return std::move(*g);
}

// A window of 400 x 400 over 800 x 800 elements: 160,801 results, each of 160,000 taps.
TEST(FoldBudget, ExpensiveOperationsStay) {
  const ir::Graph expensive = folded(
      "graph { const w: f32[1,1,800,800] = seeded(1.0, 1); y = average_pool(w) {kernel_shape=[400,400]}; output y }");
  EXPECT_EQ(expensive.nodes.size(), 1u);
  const ir::Graph cheap = folded(
      "graph { const w: f32[1,1,80,80] = seeded(1.0, 1); y = average_pool(w) {kernel_shape=[40,40]}; output y }");
  EXPECT_EQ(cheap.nodes.size(), 0u);
}

// Little may grow into much where making it takes long, and nowhere else.
TEST(FoldBudget, WhatIsMadeOfLittleIsMadeOnceWhereItIsExpensive) {
  const ir::Graph filters = folded(
      "graph { const b: i64[] = [80]; const n: i64[] = [400]; const r: i64[] = [16000]; const l: f32[] = [20.0]; const "
      "h: f32[] = [7600.0]; y = mel_weight_matrix(b, n, r, l, h); output y }");
  EXPECT_EQ(filters.nodes.size(), 0u) << ir::print(filters);
  const ir::Graph zeros =
      folded("graph { const x: f32[1] = [0.5]; const s: i64[2] = [200, 80]; y = expand(x, s); output y }");
  EXPECT_EQ(zeros.nodes.size(), 1u) << ir::print(zeros);
}

// A size that folding makes a number is one everywhere behind it, in one run of the pass.
TEST(FoldBudget, NoSizeOfBeforeStays) {
  const ir::Graph g = folded(
      "graph { input x: f32[1,6,4]; const f: f32[2] = [4.0, 6.0]; k = cast(f) {to=14}; q = reshape(x, k); y = sin(q); "
      "s "
      "= shape(y); z = constant_of_shape(s); output y; output s; output z }");
  EXPECT_EQ(shape_text(*g.outputs[0]->type.shape), "[4,6]");
  ASSERT_TRUE(g.outputs[1]->constant && g.outputs[2]->constant) << ir::print(g);
}

// A size that data decides is asked of the value that has it.
TEST(FoldBudget, SizesOfDataKeepTheirSource) {
  const ir::Graph g = folded("graph { input x: f32[b,4]; n = non_zero(x); s = shape(n); output s }");
  ASSERT_EQ(g.nodes.size(), 2u) << ir::print(g);
  EXPECT_EQ(g.outputs[0]->producer->op, "shape");
}

TEST(Pipeline, AnInterruptionEndsIt) {
  auto g = ir::parse_graph("graph { input x: f32[2]; y = relu(x); output y }");
  ASSERT_TRUE(g.ok());
  const auto done = run_pipeline(*g, {{}, "", [] { return true; }});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace peri::passes
