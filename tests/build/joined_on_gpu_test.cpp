// Convolutions joined with the concatenation or the factors that they read, or the shuffle that they store, for a
// recorded GPU: among the parts that a build tries there is one for the joined kernel, and none where it does not take
// the region.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/backends.hpp"
#include "compile/compile.hpp"
#include "device/target.hpp"
#include "exec/region/region_payload.hpp"
#include "lower/accepts.hpp"
#include "lower/control.hpp"
#include "lower/cover.hpp"
#include "ops/entry.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {

// A build of the graph for a recorded GPU without times.
std::unique_ptr<compile::Compilation> started(const std::string& text) {
  compile::Options o;
  o.model = "joined";
  o.backend = "cuda";
  o.tune.target = device::read_target(std::string(tests::kSourceDir) + "/tests/whole/locks/h200.json").value();
  o.tune.measure = o.tune.verify = false;
  auto imported = ir::parse_graph(text);
  EXPECT_TRUE(imported.ok() && ops::infer_graph(*imported).ok()) << text;
  auto work = compile::Compilation::start(std::move(o), {std::move(*imported), {}, {}, {}});
  EXPECT_TRUE(work.ok()) << work.error().text();
  return std::move(*work);
}

// What its estimates choose: kernels, in order.
std::vector<std::string> planned(const std::string& text) {
  const auto made = started(text)->lower();
  EXPECT_TRUE(made.ok()) << made.error().text();
  std::vector<std::string> out;
  for (const lower::StepReport& s : made->steps)
    if (!s.conversion) out.push_back(s.chosen.substr(0, s.chosen.find('@')));
  return out;
}

// Parts with so many results that a measuring build of the graph would try with the kernel.
int64_t parts_with(std::string_view kernel, const std::string& text, size_t results = 1) {
  const auto work = started(text);
  const auto backend = compile::backend_named("cuda");
  tune::Options tune = work->options().tune;
  tune.measure = tune.verify = true;  // as far as offers go: nothing is tried here
  tune::Tuner tuner(tune);
  ir::Graph graph = work->graph().clone();
  lower::drop_known_shapes(graph);
  EXPECT_TRUE(lower::store_arguments(&graph).ok());
  graph.erase_dead();
  const DimBinding sizes = work->tuned_for();
  const std::vector<DimBinding> also;
  const lower::RefusedChoices refused;
  const lower::Terms terms{graph, **backend, tuner, sizes, also, refused};
  int64_t count = 0;
  for (const lower::Part& part :
       lower::parts_of(graph, lower::cut_regions(graph, lower::accepts_of(terms)), lower::measured_rules(terms)).list) {
    const auto here = exec::bind_region(lower::region_graph(part.region), sizes);
    if (!here.ok() || part.region.outputs.size() != results) continue;
    const auto& list = tuner.offers(*here, lower::constant_inputs(part.region)).list;
    count += std::any_of(list.begin(), list.end(), [&](const tune::Candidate& c) { return c.kernel->name == kernel; });
  }
  return count;
}
int64_t joined_parts(const std::string& text) { return parts_with("cuda_conv_joined_mma", text); }

constexpr const char* kHead =
    "graph { input x: f16[1,64,128,128]; const v: f16[64,64,1,1] = seeded(0.1, 1); a = conv(x, v); b = relu(a); ";

TEST(JoinedOnGpu, AConcatenationIsReadWhereItIs) {
  EXPECT_GE(joined_parts(std::string(kHead) +
                         "const w: f16[64,128,3,3] = seeded(0.1, 2); c = conv(b, v); d = relu(c); e = concat(b, d) "
                         "{axis=1}; f = conv(e, w) {pads=[1,1,1,1]}; y = relu(f); output y }"),
            1);
}

TEST(JoinedOnGpu, AShuffleIsStoredAtOnce) {
  EXPECT_GE(joined_parts(std::string(kHead) +
                         "const w: f16[128,64,3,3] = seeded(0.1, 2); f = conv(b, w) {pads=[1,1,1,1]}; y = "
                         "depth_to_space(f) {blocksize=4, mode=\"CRD\"}; output y }"),
            1);
}

// A squeeze-and-excite block whose image a convolution of one pixel alone reads.
TEST(JoinedOnGpu, FactorsAreAppliedWhereTheImageIsRead) {
  EXPECT_GE(
      joined_parts(std::string(kHead) +
                   "const u: f16[16,64,1,1] = seeded(0.1, 2); const t: f16[64,16,1,1] = seeded(0.1, 3); const w: "
                   "f16[24,64,1,1] = seeded(0.1, 4); p = global_average_pool(b); q = conv(p, u); r = relu(q); s = "
                   "conv(r, t); g = hard_sigmoid(s); m = mul(b, g); y = conv(m, w); output y }"),
      1);
}

TEST(JoinedOnGpu, WhatItDoesNotTakeStandsApart) {
  EXPECT_EQ(joined_parts(std::string(kHead) +
                         "const w: f16[64,192,3,3] = seeded(0.1, 2); e = concat(b, b, b) {axis=1}; y = conv(e, w) "
                         "{pads=[1,1,1,1]}; output y }"),
            0)
      << "three images";
  EXPECT_EQ(joined_parts(std::string(kHead) +
                         "const w: f16[12,64,3,3] = seeded(0.1, 2); f = conv(b, w) {pads=[1,1,1,1]}; y = "
                         "depth_to_space(f) {blocksize=2}; output y }"),
            0)
      << "three channels";
  EXPECT_EQ(
      joined_parts(std::string(kHead) +
                   "input g: f16[1,1,128,1]; const w: f16[24,64,1,1] = seeded(0.1, 2); m = mul(b, g); y = conv(m, "
                   "w); output y }"),
      0)
      << "a factor for each row";
}

// Where nothing is measured the estimates say what the copies between would take.
TEST(JoinedOnGpu, EstimatesChooseItWhereCopiesAreLarge) {
  const std::string head =
      "graph { input x: f16[8,64,128,128]; input z: f16[8,64,128,128]; const v: f16[64,64,1,1] = seeded(0.1, 1); b = "
      "conv(x, v); d = conv(z, v); const w: f16[64,128,1,1] = seeded(0.1, 2); e = concat(b, d) {axis=1}; ";
  const std::vector<std::string> concat = planned(head + "y = conv(e, w); output y }");
  EXPECT_EQ(std::count(concat.begin(), concat.end(), "cuda_conv_joined_mma"), 1) << testing::PrintToString(concat);
  EXPECT_EQ(std::count(concat.begin(), concat.end(), "cuda_copy"), 0) << testing::PrintToString(concat);
  const std::vector<std::string> shuffle =
      planned(std::string(kHead) +
              "const w: f16[128,64,3,3] = seeded(0.1, 2); f = conv(b, w) {pads=[1,1,1,1]}; y = depth_to_space(f) "
              "{blocksize=4, mode=\"CRD\"}; output y }");
  EXPECT_EQ(std::count(shuffle.begin(), shuffle.end(), "cuda_pick"), 0) << testing::PrintToString(shuffle);
}

// A sum that the next block reads too and its activation, which a convolution reads: one launch may store both.
TEST(JoinedOnGpu, AConvolutionStoresItsSumAndWhatTheChainMakesOfIt) {
  const std::string text =
      "graph { input x: f16[1,64,32,32]; const w: f16[64,64,3,3] = seeded(0.1, 2); c = conv(x, w) "
      "{pads=[1,1,1,1]}; s = add(c, x); z = hard_swish(s); d = conv(z, w) {pads=[1,1,1,1]}; y = "
      "add(d, s); output y }";
  EXPECT_EQ(parts_with("cuda_conv_mma", text, 2), 1);
}

}  // namespace
}  // namespace peri::build
