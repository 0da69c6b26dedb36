// What may stand in a cover beside the greedy cut: beginnings of chains with their rest, and neighbours as one; under a
// lock what it has, without measuring nothing.
#include "lower/parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "exec/region/region_payload.hpp"
#include "lower/cover.hpp"
#include "ops/entry.hpp"

namespace peri::lower {
namespace {

const DimBinding kDims = {{"batch", 1}};
const Backend kBackend = {.name = "none"};

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

Region all_of(const ir::Graph& g) {
  Region r;
  r.nodes = g.nodes;
  close_region(g, &r);
  return r;
}

const PartRules kEverything = {
    [](const Region&, const Region&, const Region&) { return std::vector<const kernels::Kernel*>(); },
    [](const Region&) { return true; }, true};

size_t joint(const Parts& parts) {
  return static_cast<size_t>(std::count_if(parts.list.begin(), parts.list.end(), [](const Part& p) {
    const std::vector<ir::Node*>& n = p.region.nodes;
    return !p.greedy && std::count_if(n.begin(), n.end(), [](auto* x) { return x->op == "conv"; }) == 2;
  }));
}

// Queries, scaled, then keys and values of x; `depends`: the values need the keys.
ir::Graph attention_inputs(bool depends) {
  ir::Graph g;
  ir::Value* x = g.add_input("x", {DType::kF32, Shape{Dim::symbol("batch"), Dim(16), Dim(32)}});
  const auto product = [&](const std::string& name, ir::Value* residual) {
    Tensor t = *Tensor::zeros(DType::kF32, {32, 32});
    for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, static_cast<double>(k % 5) - 2);
    ir::Value* y = g.add("matmul", {x, g.add_constant("w" + name, std::move(t))})->out();
    return residual ? g.add("add", {y, residual})->out() : y;
  };
  ir::Value* q = g.add("softmax", {product("q", nullptr)})->out();
  ir::Value* k = product("k", nullptr);
  ir::Value* v = product("v", depends ? k : nullptr);
  g.mark_output(q, "q");
  g.mark_output(k, "k");
  g.mark_output(v, "v");
  EXPECT_TRUE(ops::infer_graph(g).ok());
  return g;
}

TEST(Parts, SiblingsOverOneInputAreAnOptionAndTakenByAKernel) {
  for (const bool depends : {false, true}) {
    const ir::Graph g = attention_inputs(depends);
    tune::Tuner tuner(unmeasured());
    const PartRules rules = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                             [&](const Region& r) {
                               const auto here = exec::bind_region(region_graph(r), kDims);
                               return here.ok() && tuner.accepted(*here, constant_inputs(r));
                             }};
    const Parts parts = parts_of(g, cut(g, tuner), rules);
    const auto group =
        std::find_if(parts.list.begin(), parts.list.end(), [](const Part& p) { return p.region.outputs.size() > 1; });
    ASSERT_NE(group, parts.list.end());
    EXPECT_EQ(group->region.outputs.size(), 3u);
    EXPECT_EQ(group->region.nodes.size(), 3u) << "what needs a sibling is one by its beginning";
    EXPECT_EQ(group->atoms, (std::vector<int>{0, 1, 2})) << "side by side";
    EXPECT_FALSE(group->greedy);
    const auto rest = std::find_if(parts.list.begin(), parts.list.end(),
                                   [](const Part& p) { return p.region.nodes.front()->op == "add"; });
    EXPECT_EQ(rest != parts.list.end(), depends);
    if (depends) EXPECT_EQ(rest->region.nodes.size(), 1u);
    const auto here = exec::bind_region(region_graph(group->region), kDims);
    ASSERT_TRUE(here.ok());
    const auto& offers = tuner.offers(*here, constant_inputs(group->region)).list;
    ASSERT_EQ(offers.size(), 1u);
    EXPECT_EQ(offers[0].kernel->name, "gemm_siblings_f32");
  }
}

using Ops = std::vector<std::string>;
Ops ops_of(const Region& r) {
  Ops out;
  for (const ir::Node* n : r.nodes) out.push_back(n->op);
  return out;
}

std::vector<std::vector<int>> groups_of(const Parts& parts) {
  std::vector<std::vector<int>> out;
  for (const Part& p : parts.list)
    if (p.region.outputs.size() > 1) out.push_back(p.atoms);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Parts, SomeOfTheSiblingsAreAnOptionToo) {
  const PartRules joins = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                           [](const Region&) { return true; }};
  const ir::Graph three = attention_inputs(false);
  tune::Tuner tuner(unmeasured());
  EXPECT_EQ(groups_of(parts_of(three, cut(three, tuner), joins)),
            (std::vector<std::vector<int>>{{0, 1}, {0, 1, 2}, {0, 2}, {1, 2}}));
  ir::Graph many;
  ir::Value* x = many.add_input("x", {DType::kF32, Shape{Dim::symbol("batch"), Dim(32)}});
  for (int k = 0; k < 6; ++k) {
    const std::string name = std::to_string(k);
    many.mark_output(
        many.add("matmul", {x, many.add_constant("w" + name, *Tensor::zeros(DType::kF32, {32, 32}))})->out(),
        "y" + name);
  }
  ASSERT_TRUE(ops::infer_graph(many).ok());
  const auto groups = groups_of(parts_of(many, cut(many, tuner), joins));
  EXPECT_EQ(groups.size(), 15u) << "those side by side";
  for (const std::vector<int>& g : groups) EXPECT_EQ(g.back() - g.front() + 1, static_cast<int>(g.size()));
}

// The lock of a build that took some siblings, and a neighbour with a beginning, gives these back.
TEST(Parts, ALockedGroupOfSomeSiblings) {
  const ir::Graph g = attention_inputs(false);
  tune::Tuner tuner(unmeasured());
  const PartRules joins = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                           [](const Region&) { return true; }};
  plan::Lock lock;
  for (const Part& p : parts_of(g, cut(g, tuner), joins).list)
    if (p.atoms == std::vector<int>{0, 2})
      lock.regions.push_back({.name = region_name(p.region), .key = region_key(p.region)});
  ASSERT_EQ(lock.regions.size(), 1u);
  const plan::LockReader reader(&lock);
  const Parts under = locked_parts(g, reader, parts_of(g, cut(g, tuner), locked_rules(reader)));
  size_t together = 0;
  for (const Part& p : under.list) together += p.region.outputs.size() == 2;
  EXPECT_EQ(together, 1u);
  EXPECT_EQ(under.list.size(), cut(g, tuner).size() - 1);
}

// A pointwise convolution with relu, and behind it a depthwise one whose result meets another value.
ir::Graph with_residual() {
  ir::Graph g = bottleneck(false);
  ir::Value* y = g.outputs[0];
  g.outputs.clear();
  g.output_names.clear();
  ir::Value* z = g.add_input("z", y->type);
  g.mark_output(g.add("add", {y, z})->out(), "sum");
  EXPECT_TRUE(ops::infer_graph(g).ok());
  return g;
}

TEST(Parts, ANeighbourIsJoinedWithABeginning) {
  const ir::Graph g = with_residual();
  tune::Tuner tuner(unmeasured());
  const PartRules rules = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                           [&](const Region& r) {
                             const auto here = exec::bind_region(region_graph(r), kDims);
                             return here.ok() && tuner.accepted(*here, constant_inputs(r));
                           }};
  ASSERT_EQ(cut(g, tuner).size(), 2u) << "the addition belongs to the second convolution";
  EXPECT_FALSE(rules.joins(all_of(g))) << "no kernel takes all of it";
  const Parts parts = parts_of(g, cut(g, tuner), rules);
  ASSERT_EQ(parts.atoms, 3);
  const auto part = [&](const std::vector<int>& atoms) {
    const auto it = std::find_if(parts.list.begin(), parts.list.end(), [&](const Part& p) { return p.atoms == atoms; });
    return it == parts.list.end() ? Ops() : ops_of(it->region);
  };
  EXPECT_EQ(part({0, 1}), (Ops{"conv", "relu", "conv"}));
  EXPECT_EQ(part({2}), (Ops{"add"}));
  EXPECT_EQ(part({1, 2}), (Ops{"conv", "add"})) << "of the cut";
  EXPECT_EQ(part({1}), Ops{"conv"}) << "whatever stands before it, the rest of the graph can be covered";
}

TEST(Parts, ARestIsJoinedWithANeighbourOrItsBeginning) {
  const ir::Graph g = with_residual();
  tune::Tuner tuner(unmeasured());
  const Parts parts = parts_of(g, cut(g, tuner), kEverything);
  ASSERT_EQ(parts.atoms, 4);  // conv, relu, conv, add
  for (const std::vector<int>& atoms :
       {std::vector{0}, {1}, {0, 1}, {2}, {3}, {2, 3}, {0, 1, 2, 3}, {0, 1, 2}, {1, 2, 3}, {1, 2}})
    EXPECT_EQ(std::count_if(parts.list.begin(), parts.list.end(), [&](const Part& p) { return p.atoms == atoms; }), 1)
        << atoms.front() << " to " << atoms.back();
  EXPECT_EQ(parts.list.size(), 10u);
}

TEST(Parts, WhatTheLockHasAndOnlyThat) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  ASSERT_EQ(cut(g, tuner).size(), 2u);
  const Region both = all_of(g);
  plan::Lock lock;
  lock.regions = {{.name = region_name(both), .key = region_key(both), .candidate = "conv_pair_f32@1 {}"}};
  const auto under = [&]() {
    const plan::LockReader reader(&lock);
    return locked_parts(g, reader, parts_of(g, cut(g, tuner), locked_rules(reader))).list;
  };
  ASSERT_EQ(under().size(), 1u);
  EXPECT_EQ(under()[0].region.nodes.size(), 3u);
  EXPECT_EQ(under()[0].region.outputs, g.outputs);
  EXPECT_EQ(under()[0].region.inputs.size(), 3u);  // x and both weights
  lock.regions[0].name = "another";
  EXPECT_EQ(under().size(), 2u) << "an equal problem at another place";
  lock.regions[0] = {.name = region_name(both), .key = "another"};
  EXPECT_EQ(under().size(), 2u);
}

TEST(Parts, ALockedSplit) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  const Parts parts = parts_of(g, cut(g, tuner), kEverything);
  const auto beginning = std::find_if(parts.list.begin(), parts.list.end(), [](const Part& p) { return p.whole; });
  ASSERT_NE(beginning, parts.list.end());
  const std::vector<int>& all = parts.list[*beginning->whole].atoms;
  const auto behind = std::find_if(parts.list.begin(), parts.list.end(), [&](const Part& p) {
    return p.atoms == std::vector<int>(all.begin() + static_cast<std::ptrdiff_t>(beginning->atoms.size()), all.end());
  });
  ASSERT_NE(behind, parts.list.end());
  const Region &first = beginning->region, &rest = behind->region;
  ASSERT_EQ(first.nodes.size(), 1u);
  ASSERT_EQ(rest.nodes.size(), 1u);
  plan::Lock lock;
  for (const Region* r : {&first, &rest}) lock.regions.push_back({.name = region_name(*r), .key = region_key(*r)});
  const plan::LockReader reader(&lock);
  const Parts under = locked_parts(g, reader, parts_of(g, cut(g, tuner), locked_rules(reader)));
  ASSERT_EQ(under.list.size(), 3u);
  EXPECT_EQ(under.list[0].region.nodes, first.nodes);
  EXPECT_EQ(under.list[1].region.nodes, rest.nodes);
}

TEST(Parts, WithoutMeasuringTheCutStands) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  const RefusedChoices none;
  const Terms terms{g, kBackend, tuner, kDims, {}, none};
  const std::vector<Region> regions = cut(g, tuner);
  EXPECT_EQ(parts_of(g, regions, measured_rules(terms)).list.size(), regions.size());
  tune::Options o;
  tune::Tuner measuring(o);
  const Terms measured{g, kBackend, measuring, kDims, {}, none};
  EXPECT_EQ(joint(parts_of(g, regions, measured_rules(measured))), 1u) << "a kernel takes both convolutions";
}

// A product with GELU behind it is one region, which one kernel takes; another takes the product and expects to be
// faster by more than the pass over memory that it leaves.
TEST(Parts, WithNoTimeLeftThoseOfAChainStandByGuesses) {
  for (const int64_t rows : {16384, 16}) {
    ir::Graph g;
    ir::Value* x = g.add_input("x", {DType::kF16, Shape{Dim(rows), Dim(768)}});
    ir::Value* s = g.add("matmul", {x, g.add_constant("w", *Tensor::zeros(DType::kF16, {768, 3072}))})->out();
    g.mark_output(g.add("gelu", {s})->out(), "y");
    ASSERT_TRUE(ops::infer_graph(g).ok());
    tune::Options o;
    o.verify = false;
    o.stop = [] { return true; };
    o.executors = {"cuda"};
    o.own_executor = "cuda";
    o.target = device::Target{device::Kind::kCuda, "a GPU", {"sm_90"}, 132, {}, {"cublaslt 13.1.0"}, 132};
    tune::Tuner tuner(o);
    const RefusedChoices none;
    const Terms terms{g, kBackend, tuner, kDims, {}, none};
    plan::LockReader unlocked(nullptr);
    const auto cover = choose_cover(terms, parts_of(g, cut(g, tuner), measured_rules(terms)), &unlocked);
    ASSERT_TRUE(cover.ok()) << cover.error().text();
    if (rows == 16) {
      EXPECT_EQ(cover->regions.size(), 1u);
      continue;
    }
    ASSERT_EQ(cover->regions.size(), 2u);
    EXPECT_EQ(cover->choices[0].candidate.kernel->name, "cuda_blaslt");
    EXPECT_EQ(cover->choices[1].candidate.kernel->name, "cuda_elementwise");
  }
}

TEST(Parts, ABeginningThatTheRuleLeavesOutIsTriedWhereEveryOneIsAskedFor) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner({});
  const RefusedChoices none;
  const Terms terms{g, kBackend, tuner, kDims, {}, none};
  const auto beginnings = [&] {
    const Parts parts = parts_of(g, cut(g, tuner), measured_rules(terms));
    return std::count_if(parts.list.begin(), parts.list.end(), [](const Part& p) { return p.whole.has_value(); });
  };
  EXPECT_EQ(beginnings(), 0) << "who takes a convolution with relu takes it without";
  setenv("PERI_EVERY_SPLIT", "1", 1);
  EXPECT_EQ(beginnings(), 1);
  unsetenv("PERI_EVERY_SPLIT");
}

// A convolution, its means, a product of the means, and their maximum.
TEST(Parts, UpToFourInARowAreAnOptionWhereEachAloneReadsTheOneBefore) {
  for (const bool also_read : {false, true}) {
    ir::Graph g;
    const auto weight = [&](const std::string& name, const std::vector<int64_t>& dims) {
      return g.add_constant(name, *Tensor::zeros(DType::kF32, dims));
    };
    ir::Value* x = g.add_input("x", {DType::kF32, Shape{Dim::symbol("batch"), Dim(16), Dim(6), Dim(6)}});
    ir::Value* c = g.add("conv", {x, weight("w1", {8, 16, 1, 1})})->out();
    ir::Value* m = g.add("global_average_pool", {c})->out();
    ir::Value* d = g.add("conv", {m, weight("w2", {4, 8, 1, 1})})->out();
    ir::Value* e = g.add("conv", {d, weight("w3", {4, 4, 1, 1})})->out();
    g.mark_output(g.add("conv", {e, weight("w4", {4, 4, 1, 1})})->out(), "y");
    if (also_read) g.mark_output(g.add("global_max_pool", {c})->out(), "z");
    ASSERT_TRUE(ops::infer_graph(g).ok());
    tune::Tuner tuner(unmeasured());
    const Parts parts = parts_of(g, cut(g, tuner), kEverything);
    const auto from = [&](const ir::Value* first, const ir::Value* last) {
      return std::count_if(parts.list.begin(), parts.list.end(), [&](const Part& p) {
        const auto has = [&](const ir::Value* v) {
          return std::find(p.region.nodes.begin(), p.region.nodes.end(), v->producer) != p.region.nodes.end();
        };
        return has(first) && has(last);
      });
    };
    EXPECT_EQ(from(c, d), also_read ? 0 : 2) << "three, and the four that hold them";
    EXPECT_EQ(from(c, e), also_read ? 0 : 1);
    EXPECT_EQ(from(m, g.outputs[0]), 1);
    EXPECT_EQ(from(c, g.outputs[0]), 0) << "five";
  }
}

TEST(Parts, NoJoinWhereSomebodyElseReadsTheMiddle) {
  const ir::Graph apart = bottleneck(true), near = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  EXPECT_EQ(joint(parts_of(near, cut(near, tuner), kEverything)), 1u);
  EXPECT_EQ(joint(parts_of(apart, cut(apart, tuner), kEverything)), 0u);
}

TEST(Parts, ThePairIsACandidateOfTheJointRegion) {
  const ir::Graph g = bottleneck(false);
  tune::Tuner tuner(unmeasured());
  const Region r = all_of(g);
  const auto here = exec::bind_region(region_graph(r), kDims);
  ASSERT_TRUE(here.ok());
  const tune::Candidates& all = tuner.candidates(*here, constant_inputs(r));
  ASSERT_FALSE(all.list.empty());
  EXPECT_EQ(all.list[0].kernel->name, "conv_pair_f32");
}

}  // namespace
}  // namespace peri::lower
