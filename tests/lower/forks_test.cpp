// A region whose result an element-wise region reads, and others too, is an option as one with two results: it stands
// in an order in which it may run, and not where what its prong reads beside it is made in between.
#include "lower/forks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/region/region_payload.hpp"
#include "lower/parts.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {
namespace {

enum class Other { kNone, kResult, kReaderBefore, kFeedsTheProng };

// s = conv(x) + x and z = relu(s), or max(s, what a mean of s is) where that feeds the prong; who else reads s, which
// a residual behind z reads in any case but kNone.
ir::Graph stem(Other other) {
  ir::Graph g;
  const auto weight = [&](const std::string& name) {
    return g.add_constant(name, *Tensor::zeros(DType::kF32, {16, 16, 1, 1}));
  };
  ir::Value* x = g.add_input("x", {DType::kF32, Shape{Dim::symbol("batch"), Dim(16), Dim(6), Dim(6)}});
  ir::Value* s = g.add("add", {g.add("conv", {x, weight("w1")})->out(), x})->out();
  ir::Value* mean = nullptr;
  if (other == Other::kReaderBefore || other == Other::kFeedsTheProng) mean = g.add("global_average_pool", {s})->out();
  ir::Value* z = other == Other::kFeedsTheProng ? g.add("max", {s, mean})->out() : g.add("relu", {s})->out();
  ir::Value* y = g.add("conv", {z, weight("w2")})->out();
  g.mark_output(other == Other::kNone ? y : g.add("add", {y, s})->out(), "y");
  if (other == Other::kReaderBefore) g.mark_output(mean, "mean");
  if (other == Other::kResult) g.mark_output(s, "s");
  EXPECT_TRUE(ops::infer_graph(g).ok());
  return g;
}

std::vector<Region> cut(const ir::Graph& g) {
  // A convolution with what follows it, and element-wise groups.
  return cut_regions(g, [](const Region&) { return true; });
}

Parts parts(const ir::Graph& g, bool joins) {
  return parts_of(
      g, cut(g),
      {[](const Region&, const Region&, const Region&) { return std::optional<std::vector<const kernels::Kernel*>>(); },
       [joins](const Region&) { return joins; }});
}

std::vector<const Part*> forked(const Parts& parts) {
  std::vector<const Part*> out;
  for (const Part& p : parts.list) {
    const auto count = [&](std::string_view op) {
      return std::count_if(p.region.nodes.begin(), p.region.nodes.end(), [&](auto* n) { return n->op == op; });
    };
    if (!p.greedy && count("conv") == 1 && count("relu") + count("max") == 1 && p.region.outputs.size() == 2)
      out.push_back(&p);
  }
  return out;
}

TEST(Forks, ARegionAndItsProngAreAnOptionWithTwoResults) {
  for (const Other other : {Other::kResult, Other::kReaderBefore}) {
    const ir::Graph g = stem(other);
    const Parts all = parts(g, true);
    const std::vector<const Part*> found = forked(all);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0]->region.outputs[0]->producer->op, "add") << "what others read";
    EXPECT_EQ(found[0]->region.outputs[1]->producer->op, "relu");
    ASSERT_EQ(found[0]->atoms.size(), 2u);
    EXPECT_EQ(found[0]->atoms[1], found[0]->atoms[0] + 1) << "before any other reader";
    EXPECT_TRUE(forked(parts(g, false)).empty()) << "no kernel takes it";
  }
}

TEST(Forks, OneThatNobodyElseReadsIsPartOfTheChain) { EXPECT_TRUE(forked(parts(stem(Other::kNone), true)).empty()); }

TEST(Forks, AProngThatReadsWhatTheResultFeedsStaysBehindIt) {
  const ir::Graph g = stem(Other::kFeedsTheProng);
  EXPECT_TRUE(forked(parts(g, true)).empty());
}

// The parts of the cut are in an order in which they may run.
TEST(Forks, TheOrderStaysValid) {
  const ir::Graph g = stem(Other::kReaderBefore);
  std::vector<Region> regions = cut(g);
  const auto as_one = [](const Region&, const Region&) { return true; };
  const std::vector<Fork> found = bring_forks(g, as_one, &regions);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].prong, found[0].stem + 1);
  std::vector<const ir::Value*> made;
  for (const Region& r : regions) {
    for (const ir::Value* v : r.inputs)
      EXPECT_TRUE(!v->producer || std::find(made.begin(), made.end(), v) != made.end()) << v->name;
    made.insert(made.end(), r.outputs.begin(), r.outputs.end());
  }
}

}  // namespace
}  // namespace peri::lower
