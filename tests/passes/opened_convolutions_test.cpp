// Convolutions that passes take apart keep their meaning: gates of signals in parts of any sizes, and transposed
// convolutions whose windows do not overlap, of any window and with several channels.
// label: null
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

// The number of `op` left by the pass, which rewrites the graph `rewrites` times.
int64_t left(std::string_view pass, const std::string& text, std::string_view op, int64_t rewrites) {
  SCOPED_TRACE(text);
  auto graph = ir::parse_graph(text);
  if (!graph.ok() || !ops::infer_graph(*graph).ok()) {
    ADD_FAILURE() << "no graph";
    return -1;
  }
  const ir::Graph before = graph->clone();
  const auto report = run_pass(*find(pass), *graph, {});
  if (!report.ok()) {
    ADD_FAILURE() << report.error().text();
    return -1;
  }
  EXPECT_EQ(report->rewrites, rewrites);
  for (const uint64_t seed : {1, 2}) expect_same_meaning(before, *graph, seed);
  return std::count_if(graph->nodes.begin(), graph->nodes.end(), [&](const ir::Node* n) { return n->op == op; });
}

std::string gate(const std::string& attrs, const std::string& sizes, const std::string& outputs) {
  return "graph { input x: f32[n,3,l]; const w: f32[64,3,3] = seeded(0.4, 1); const b: f32[64] = seeded(0.5, 2); const "
         "s: i64[3] = " +
         sizes + "; a = conv(x, w, b) {" + attrs + "}; p, q, r = split(a, s) {axis=-2}; " + outputs + " }";
}

TEST(SplitConvolutions, PartsOfAnySize) {
  const auto convolutions = [](const std::string& text, int64_t rewrites) {
    return left("split_convolutions", text, "conv", rewrites);
  };
  EXPECT_EQ(convolutions(gate("pads=[1,1]", "[16, 32, 16]", "output p; output q; output r"), 3), 3);
  EXPECT_EQ(convolutions(gate("pads=[4,0], dilations=[2]", "[17, 31, 16]",
                              "t = tanh(p); y = relu(r); output t; output q; output y"),
                         3),
            3);
  EXPECT_EQ(convolutions(gate("pads=[1,1], strides=[2]", "[20, 20, 24]", "y = relu(q); output y"), 1),
            1);                                                                                       // the others go
  EXPECT_EQ(convolutions(gate("pads=[1,1]", "[15, 33, 16]", "output p; output q; output r"), 0), 1);  // few channels
  EXPECT_EQ(convolutions(gate("pads=[1,1]", "[16, 32, 16]", "output a; output p; output q; output r"), 0), 1);
}

std::string upsampled(const std::string& channels, const std::string& window, const std::string& attrs, bool bias) {
  return "graph { input x: f32[n,5,3,w]; const k: f32[5," + channels + "," + window +
         "] = seeded(0.4, 1); const b: f32[" + channels + "] = seeded(0.5, 2); y = conv_transpose(x, k" +
         (bias ? ", b" : "") + ") {" + attrs + "}; output y }";
}

TEST(OpenUpsampling, WindowsThatDoNotOverlap) {
  const auto transposed = [](const std::string& text, int64_t rewrites) {
    return left("open_upsampling", text, "conv_transpose", rewrites);
  };
  for (const bool bias : {false, true}) {
    EXPECT_EQ(transposed(upsampled("1", "2,2", "strides=[2,2]", bias), 1), 0);
    EXPECT_EQ(transposed(upsampled("3", "2,3", "strides=[2,3], dilations=[1,1], pads=[0,0,0,0]", bias), 1), 0);
    EXPECT_EQ(transposed(upsampled("4", "1,4", "strides=[1,4]", bias), 1), 0);
    EXPECT_EQ(transposed(upsampled("5", "2,2", "strides=[2,2]", bias), 0), 1);                  // enough channels
    EXPECT_EQ(transposed(upsampled("1", "3,3", "strides=[2,2]", bias), 0), 1);                  // overlap
    EXPECT_EQ(transposed(upsampled("1", "2,2", "strides=[3,3]", bias), 0), 1);                  // gaps
    EXPECT_EQ(transposed(upsampled("1", "2,2", "strides=[2,2], pads=[1,0,0,0]", bias), 0), 1);  // cut
    EXPECT_EQ(transposed(upsampled("1", "2,2", "strides=[2,2], output_padding=[1,0]", bias), 0), 1);
    EXPECT_EQ(transposed(upsampled("1", "1,1", "strides=[1,1]", bias), 0), 1);
  }
}

std::string transposed(const std::string& window, const std::string& attrs, const std::string& width = "w") {
  return "graph { input x: f32[n,4,5," + width + "]; input k: f32[4,3," + window +
         "]; input b: f32[6]; y = conv_transpose(x, k, b) {group=2, " + attrs + "}; output y }";
}

TEST(OpenTransposed, EveryWindowAndCut) {
  // By phases, the weights and the result are transposed; with zeros between the elements, the weights.
  const auto transposes = [](const std::string& text) { return left("open_transposed", text, "transpose", 1); };
  for (const char* pads : {"[0,0,0,0]", "[1,2,0,1]", "[3,1,2,3]", "[4,0,0,4]"}) {
    const std::string cut = std::string(", pads=") + pads;
    EXPECT_EQ(transposes(transposed("4,4", "strides=[2,2]" + cut)), 2);
    EXPECT_EQ(transposes(transposed("6,4", "strides=[3,4], output_padding=[2,3]" + cut)), 2);
    EXPECT_EQ(transposes(transposed("4,1", "strides=[2,1], output_padding=[1,0], pads=[0,0,2,0]")), 2);
    EXPECT_EQ(transposes(transposed("3,4", "strides=[2,2]" + cut)), 1);
    EXPECT_EQ(transposes(transposed("4,4", "strides=[2,2], dilations=[1,2]" + cut)), 1);
    EXPECT_EQ(transposes(transposed("4,4", "strides=[1,1]" + cut)), 1);
  }
  EXPECT_EQ(transposes(transposed("2,2", "strides=[2,2], pads=[4,1,2,5]", "9")), 2);
  EXPECT_EQ(transposes(transposed("2,4", "strides=[2,4], output_shape=[13,30]", "9")), 2);
  EXPECT_EQ(transposes(transposed("4,6", "strides=[2,3], auto_pad=\"SAME_UPPER\"")), 2);
  EXPECT_EQ(transposes(transposed("4,6", "strides=[4,3], auto_pad=\"SAME_LOWER\"")), 2);
}

}  // namespace
}  // namespace peri::passes
