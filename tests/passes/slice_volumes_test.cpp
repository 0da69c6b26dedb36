// Transposed convolutions over three axes become ones over two with the same meaning, whatever depths reach a depth of
// the result: overlaps, gaps, cuts, dilations, groups, an unknown depth.
// label: null
#include <gtest/gtest.h>

#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

std::string volume(const std::string& x, const std::string& w, const std::string& attrs, bool bias) {
  return "graph { input x: f32[" + x + "]; const w: f32[" + w +
         "] = seeded(0.3, 1); const b: f32[6] = seeded(0.5, 2); y = "
         "conv_transpose(x, w" +
         (bias ? ", b" : "") + ") {" + attrs + "}; output y }";
}

void expect_images(const std::string& text) {
  SCOPED_TRACE(text);
  auto graph = ir::parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_TRUE(ops::infer_graph(*graph).ok());
  const ir::Graph before = graph->clone();
  const auto report = run_pass(*find("slice_volumes"), *graph, {});
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report->rewrites, 1);
  for (const ir::Node* n : graph->nodes)
    if (n->op == "conv_transpose") {
      EXPECT_EQ(n->in(0)->type.rank(), 4u);
    }
  for (const uint64_t seed : {1, 2}) expect_same_meaning(before, *graph, seed);
}

TEST(SliceVolumes, TransposedOnesOfEveryKind) {
  for (const bool bias : {false, true}) {
    expect_images(volume("2,4,3,4,5", "4,6,3,3,2", "strides=[2,2,1]", bias));                      // overlaps
    expect_images(volume("2,4,3,4,5", "4,6,2,3,2", "strides=[2,1,2]", bias));                      // none
    expect_images(volume("2,4,3,4,5", "4,6,2,3,2", "strides=[4,1,1]", bias));                      // gaps
    expect_images(volume("1,4,5,4,5", "4,6,3,2,2", "strides=[2,1,1], pads=[2,0,1,1,1,0]", bias));  // cuts
    expect_images(volume("1,4,4,3,3", "4,6,3,2,2", "strides=[3,1,1], dilations=[2,1,2]", bias));   // some tap nowhere
    expect_images(volume("1,4,2,3,3", "4,6,1,2,2", "strides=[1,2,2]", bias));                      // a single depth
    expect_images(volume("n,4,d,3,h", "4,6,4,2,3", "strides=[3,2,2], output_padding=[2,1,0]", bias));
    expect_images(volume("n,3,d,3,3", "3,2,3,2,2", "strides=[2,1,1], pads=[1,0,0,1,0,0], group=3", bias));
  }
}

}  // namespace
}  // namespace peri::passes
