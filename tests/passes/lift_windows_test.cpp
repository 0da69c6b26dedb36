// A signal that thousands of nodes read is lifted once, and so is a weight: what the pass makes is as many nodes as it
// replaces and two views.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

int64_t count(const ir::Graph& g, std::string_view op) {
  return std::count_if(g.nodes.begin(), g.nodes.end(), [&](const ir::Node* n) { return n->op == op; });
}

// `users` convolutions over one signal, each with a residual from it.
ir::Graph signal(int users) {
  std::string text =
      "graph { input x: f32[1,2,8]; const w: f32[2,2,3] = seeded(0.2, 1); const s: f32[2,1] = [0.5,2.0]; ";
  std::string sum;
  for (int k = 0; k < users; ++k) {
    text += format(
        "a%d = conv(x, w) {pads=[1,1]}; b%d = leaky_relu(a%d) {alpha=%g}; c%d = mul(b%d, s); d%d = add(c%d, x); ", k, k,
        k, 1e-4 * (k + 1), k, k, k, k);
    sum += (k ? ", d" : "d") + std::to_string(k);
  }
  return parse(text + "y = concat(" + sum + ") {axis=1}; output y }");
}

TEST(LiftWindows, WhatManyReadIsLiftedOnce) {
  ir::Graph g = signal(2000);
  const auto report = run_pass(*find("lift_windows"), g);
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report->rewrites, 4 * 2000 + 1);
  EXPECT_EQ(count(g, "unsqueeze"), 1);
  EXPECT_EQ(count(g, "squeeze"), 1);
  EXPECT_EQ(count(g, "conv"), 2000);
  // The two weights and the axes of both views.
  EXPECT_EQ(g.constants().size(), 4u);
}

TEST(LiftWindows, ASharedSignalMeansTheSame) {
  const ir::Graph before = signal(3);
  ir::Graph g = before.clone();
  ASSERT_TRUE(run_pass(*find("lift_windows"), g).ok());
  expect_same_meaning(before, g, 1);
}

}  // namespace
}  // namespace peri::passes
