// Every cut of oneDNN's convolution and product gives the reference's answer: padding at slice ends, strides, groups,
// dilations, residuals, activations; what it cannot do is refused with the reason.
#include <gtest/gtest.h>

#include "ir/graph.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

Candidates candidates_of(const std::string& text) {
  Result<ir::Graph> graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  if (!graph.ok()) return {};
  EXPECT_TRUE(ops::infer_graph(*graph).ok());
  Options options;
  options.measure = false;
  options.provider = "onednn";
  options.threads = 2;
  Tuner tuner(options);
  std::vector<bool> constant;
  for (const ir::Value* v : graph->inputs) constant.push_back(v->name[0] == 'w' || v->name[0] == 'b');
  return tuner.candidates(*graph, constant);
}

void expect_right(const std::string& text, size_t count) {
  const Candidates all = candidates_of(text);
  EXPECT_EQ(all.list.size(), count) << text;
  for (const Candidate& c : all.list) {
    EXPECT_EQ(c.evidence.rejected, "") << c.id() << " for " << text;
    EXPECT_GE(c.evidence.max_error, 0) << c.id() << " for " << text;
    EXPECT_LE(c.evidence.max_error, 1) << c.id() << " for " << text;
    EXPECT_EQ(c.offer.library.rfind("onednn ", 0), 0u);
  }
}

std::string refusal_of(const std::string& kernel, const std::string& text) {
  for (const Refusal& r : candidates_of(text).refusals)
    if (r.kernel == kernel) return r.reason;
  return "";
}

std::string conv(const std::string& x, const std::string& w, const std::string& attributes) {
  return "graph { input x: f32[" + x + "]; input w: f32[" + w + "]; y = conv(x, w) {" + attributes + "}; output y }";
}

TEST(OnednnCandidates, Convolutions) {
  expect_right(conv("1,24,15,17", "40,24,3,3", "pads=[1,1,1,1]"), 2);
  expect_right(conv("1,24,15,17", "40,24,3,3", "pads=[2,0,1,3], strides=[2,3]"), 2);
  expect_right(conv("1,16,20,20", "19,16,3,3", "pads=[2,2,2,2], dilations=[2,2]"), 2);
  expect_right(conv("2,32,9,9", "32,1,5,5", "pads=[2,2,2,2], group=32"), 2);
  expect_right(conv("1,3,31,33", "32,3,7,7", "pads=[3,3,3,3], strides=[2,2]"), 2);
  expect_right(conv("9,16,7,8", "24,16,1,1", "strides=[2,2]"), 3);
  expect_right(conv("10,16,8,8", "16,16,3,3", "pads=[1,1,1,1], strides=[2,2]"), 3);
  expect_right(conv("1,16,1,40", "16,16,1,9", "pads=[0,4,0,4]"), 2);
}

TEST(OnednnCandidates, Epilogues) {
  const std::string head =
      "graph { input x: f32[1,32,14,14]; input w: f32[64,32,3,3]; input b: f32[64]; input r: f32[1,64,14,14]; c = "
      "conv(x, w, b) {pads=[1,1,1,1]}; ";
  expect_right(head + "s = add(c, r); y = relu(s); output y }", 2);
  expect_right(head + "s = relu(c); y = add(s, r); output y }", 2);
  expect_right(head + "s = sigmoid(c); y = add(s, r); output y }", 2);
  EXPECT_NE(refusal_of("onednn_conv", head + "s = mul(c, r); y = relu(s); output y }").find("post-op"),
            std::string::npos);
}

TEST(OnednnCandidates, Products) {
  expect_right("graph { input x: f32[2,13,48]; input w: f32[48,80]; y = matmul(x, w); output y }", 1);
  expect_right("graph { input x: f32[1,48]; input w: f32[48,80]; y = matmul(x, w); output y }", 1);
  expect_right(
      "graph { input x: f32[7,48]; input w: f32[80,48]; input b: f32[80]; y = gemm(x, w, b) {transB=1}; output y }", 1);
  expect_right(
      "graph { input x: f32[2,13,48]; input w: f32[48,80]; input b: f32[80]; input r: f32[2,13,80]; m = matmul(x, w); "
      "c = add(m, b); y = add(c, r); output y }",
      1);
  for (const char* rows : {"1", "2", "64", "65"}) {  // with blocks of columns, the last one narrower
    const std::string x = std::string(rows) + ",96", y = std::string(rows) + ",1100";
    expect_right("graph { input x: f32[" + x + "]; input w: f32[96,1100]; input b: f32[1100]; input r: f32[" + y +
                     "]; m = matmul(x, w); c = add(m, b); s = add(c, r); y = relu(s); output y }",
                 rows[1] == '5' ? 2 : 1);
  }
  EXPECT_NE(refusal_of("onednn_matmul", "graph { input x: f32[5,48]; input z: f32[48,8]; y = matmul(x, z); output y }")
                .find("not constant"),
            std::string::npos);
  EXPECT_NE(refusal_of("onednn_conv", "graph { input x: f32[5,48]; input z: f32[48,8]; y = matmul(x, z); output y }"),
            "");
}

}  // namespace
}  // namespace peri::tune
