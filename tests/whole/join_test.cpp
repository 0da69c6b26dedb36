// Two regions become one where a lock has the joint one, and only there; without measuring nothing is joined.
#include "lower/join.hpp"

#include <gtest/gtest.h>

#include "exec/core/region_payload.hpp"
#include "lower/cover.hpp"
#include "ops/entry.hpp"

namespace peri::lower {
namespace {

const DimBinding kDims = {{"batch", 1}};

// A pointwise convolution, its activation, and the depthwise convolution behind it; `also_read`: by somebody else too.
ir::Graph bottleneck(bool also_read) {
  ir::Graph g;
  const auto weight = [&](const std::string& name, const std::vector<int64_t>& dims) {
    Tensor t = *Tensor::zeros(DType::kF32, dims);
    for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, static_cast<double>(k % 7) - 3);
    return g.add_constant(name, std::move(t));
  };
  ir::Value* x = g.add_input("x", {DType::kF32, Shape{Dim::symbol("batch"), Dim(16), Dim(14), Dim(14)}});
  ir::Value* c = g.add("conv", {x, weight("w1", {32, 16, 1, 1})})->out();
  ir::Value* r = g.add("relu", {c})->out();
  const ir::Attrs attrs = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", int64_t{32}}};
  g.mark_output(g.add("conv", {r, weight("w2", {32, 1, 3, 3})}, attrs)->out(), "y");
  if (also_read) g.mark_output(g.add("global_average_pool", {r})->out(), "mean");
  EXPECT_TRUE(ops::infer_graph(g).ok());
  return g;
}

tune::Options unmeasured() {
  tune::Options o;
  o.measure = o.verify = false;
  return o;
}

std::vector<Region> cut(const ir::Graph& g, tune::Tuner& tuner) {
  return cut_regions(g, [&](const Region& r) {
    const auto here = exec::bind_region(region_graph(r), kDims);
    return here.ok() && tuner.accepted(*here, constant_inputs(r));
  });
}

std::string joint_key(const ir::Graph& g) {
  Region r;
  r.nodes = g.nodes;
  close_region(g, &r);
  return region_key(r);
}

TEST(Join, WhereTheLockHasTheJointRegion) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  ASSERT_EQ(cut(g, tuner).size(), 2u);
  plan::Lock lock;
  lock.regions = {{.name = "conv", .key = joint_key(g), .candidate = "conv_pair_f32@1 {channels=32 strip=256}"}};
  const std::vector<Region> joined = join_regions(g, cut(g, tuner), tuner, kDims, {}, {}, plan::LockReader(&lock));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].nodes.size(), 3u);
  EXPECT_EQ(joined[0].outputs, g.outputs);
  EXPECT_EQ(joined[0].inputs.size(), 3u);  // x and both weights
  lock.regions[0].key = "another";
  EXPECT_EQ(join_regions(g, cut(g, tuner), tuner, kDims, {}, {}, plan::LockReader(&lock)).size(), 2u);
}

TEST(Join, NotWithoutMeasuring) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  EXPECT_EQ(join_regions(g, cut(g, tuner), tuner, kDims, {}, {}, plan::LockReader(nullptr)).size(), 2u);
}

TEST(Join, NotWhereSomebodyElseReadsTheMiddle) {
  const ir::Graph g = bottleneck(true);
  tune::Tuner tuner(unmeasured());
  plan::Lock lock;
  lock.regions = {{.name = "conv", .key = joint_key(g)}};
  const std::vector<Region> apart = cut(g, tuner);
  EXPECT_EQ(join_regions(g, apart, tuner, kDims, {}, {}, plan::LockReader(&lock)).size(), apart.size());
}

TEST(Join, ThePairIsACandidateOfTheJointRegion) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  Region r;
  r.nodes = g.nodes;
  close_region(g, &r);
  const auto here = exec::bind_region(region_graph(r), kDims);
  ASSERT_TRUE(here.ok());
  const tune::Candidates& all = tuner.candidates(*here, constant_inputs(r));
  ASSERT_FALSE(all.list.empty());
  EXPECT_EQ(all.list[0].kernel->name, "conv_pair_f32");
}

}  // namespace
}  // namespace peri::lower
