// Every candidate for a convolution gives the reference's answer: the direct sum in both input layouts and Winograd's,
// with their epilogues, on the same problems.
#include <gtest/gtest.h>

#include <set>

#include "ir/graph.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

// The kernels whose candidates passed verification.
std::set<std::string> passed(std::string_view text) {
  Result<ir::Graph> graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  if (!graph.ok()) return {};
  EXPECT_TRUE(ops::infer_graph(*graph).ok());
  Options options;
  options.measure = false;
  options.provider = "peri";
  Tuner tuner(options);
  std::vector<bool> constant;
  for (const ir::Value* v : graph->inputs) constant.push_back(v->name[0] == 'w' || v->name[0] == 'b');
  std::set<std::string> names;
  const Candidates& all = tuner.candidates(*graph, constant);
  for (const Candidate& c : all.list) {
    EXPECT_EQ(c.evidence.rejected, "") << c.id() << " error/bound " << c.evidence.max_error;
    EXPECT_LE(c.evidence.max_error, 1) << c.id();
    if (c.evidence.max_error >= 0) names.insert(std::string(c.kernel->name) + " " + c.offer.config);
  }
  for (const Refusal& r : all.refusals) std::printf("%s: %s\n", r.kernel.c_str(), r.reason.c_str());
  return names;
}

constexpr std::string_view kPlain =
    "graph { input x: f32[2,24,15,17]; input w: f32[40,24,3,3]; input b: f32[40]; y = conv(x, w, b) {pads=[1,1,1,1]}; "
    "output y }";
constexpr std::string_view kResidual =
    "graph { input x: f32[1,32,14,14]; input w: f32[64,32,3,3]; input b: f32[64]; input r: f32[1,64,14,14]; "
    "c = conv(x, w, b) {pads=[1,1,1,1]}; s = add(c, r); y = relu(s); output y }";
constexpr std::string_view kDilated =
    "graph { input x: f32[1,16,20,20]; input w: f32[19,16,3,3]; y = conv(x, w) {pads=[2,2,2,2], dilations=[2,2]}; "
    "output y }";
constexpr std::string_view kFirst =
    "graph { input x: f32[1,3,31,33]; input w: f32[32,3,7,7]; y = conv(x, w) {pads=[3,3,3,3], strides=[2,2]}; output y "
    "}";

TEST(ConvCandidates, ThreeByThreeAtStrideOne) {
  for (std::string_view text : {kPlain, kResidual, kDilated}) {
    const std::set<std::string> names = passed(text);
    for (const char* name : {"conv_f32 x=nhwc", "conv_winograd_f32 m=2", "conv_winograd_f32 m=4"}) {
      EXPECT_EQ(names.count(name), 1) << name << " for " << text;
    }
  }
}

constexpr std::string_view kUp =
    "graph { input x: f32[2,24,9,7]; input w: f32[24,20,2,2]; input b: f32[20]; y = conv_transpose(x, w, b) "
    "{strides=[2,2]}; output y }";
constexpr std::string_view kUpResidual =
    "graph { input x: f32[1,12,9,7]; input w: f32[12,10,4,3]; input r: f32[1,20,19,20]; c = conv_transpose(x, w) "
    "{strides=[2,3], pads=[1,1,0,1], output_padding=[0,1], group=2}; s = add(c, r); y = relu(s); output y }";

// Pads that follow from what comes out: less than all, more than all along one axis, and the odd one at the end.
constexpr std::string_view kUpTo =
    "graph { input x: f32[2,6,7,5]; input w: f32[6,10,3,4]; y = conv_transpose(x, w) {strides=[2,3], "
    "output_shape=[12,19]}; output y }";
constexpr std::string_view kUpSame =
    "graph { input x: f32[2,6,7,5]; input w: f32[6,10,3,4]; y = conv_transpose(x, w) {strides=[2,3], "
    "auto_pad=\"SAME_UPPER\"}; output y }";

TEST(ConvCandidates, Transposed) {
  for (std::string_view text : {kUp, kUpResidual, kUpTo, kUpSame})
    EXPECT_EQ(passed(text).count("conv_transpose_f32 "), 1) << text;
}

constexpr std::string_view kBottleneck =
    "graph { input x: f32[2,24,14,15]; input w1: f32[72,24,1,1]; input b1: f32[72]; input w2: f32[72,1,5,5]; "
    "c = conv(x, w1, b1); s = sigmoid(c); m = mul(c, s); d = conv(m, w2) {pads=[2,2,2,2], strides=[2,2], group=72}; "
    "y = hard_swish(d); output y }";

TEST(ConvCandidates, PointwiseWithTheDepthwiseBehindIt) {
  const std::set<std::string> names = passed(kBottleneck);
  EXPECT_EQ(names.count("conv_pair_f32 channels=32 strip=256"), 1);
  // None of the kernels for one convolution takes two for one.
  for (const std::string& name : names) EXPECT_TRUE(name.starts_with("conv_pair_f32 ")) << name;
}

constexpr std::string_view kExcited =
    "graph { input x: f32[3,72,9,7]; input s: f32[3,72,1,1]; input w: f32[40,72,1,1]; input b: f32[40]; "
    "input r: f32[3,40,9,7]; m = mul(x, s); c = conv(m, w, b); y = add(c, r); output y }";

TEST(ConvCandidates, PointwiseOfScaledChannels) {
  EXPECT_EQ(passed(kExcited), (std::set<std::string>{"conv_scaled_f32 "}));
}

TEST(ConvCandidates, FirstLayerInBothLayouts) {
  const std::set<std::string> names = passed(kFirst);
  EXPECT_EQ(names.count("conv_f32 x=nhwc"), 1);
  EXPECT_EQ(names.count("conv_f32 x=nchw"), 1);
  EXPECT_EQ(names.count("conv_winograd_f32 m=4"), 0);
}

}  // namespace
}  // namespace peri::tune
