// Siblings of a wide graph come together in groups, whatever stands between them, and nothing moves before what feeds
// it; they stand as one whole, or by the beginnings that may.
#include "lower/siblings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "exec/region/region_payload.hpp"
#include "ir/text.hpp"
#include "lower/parts.hpp"
#include "ops/entry.hpp"
#include "passes/pipeline.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {
namespace {

// Products over one value, between them others over what the last one made; every third reads a weight made of it.
struct Cut {
  ir::Graph graph;
  std::vector<Region> regions;
};
Cut wide(int products) {
  Cut c;
  ir::Graph& g = c.graph;
  ir::Value* x = g.add_input("x", ir::Type(DType::kF32, {Dim(8), Dim(8)}));
  ir::Value* w = g.add_input("w", ir::Type(DType::kF32, {Dim(8), Dim(8)}));
  ir::Value* last = w;
  for (int k = 0; k < products; ++k) {
    ir::Value* y = g.add("matmul", {x, k % 3 == 2 ? last : w})->out();
    last = g.add("relu", {y})->out();
    g.mark_output(last, "y" + std::to_string(k));
  }
  EXPECT_TRUE(ops::infer_graph(g).ok());
  for (ir::Node* n : g.nodes) {
    Region r;
    r.nodes = {n};
    close_region(g, &r);
    c.regions.push_back(std::move(r));
  }
  return c;
}

TEST(Siblings, OfAWideGraphComeTogetherInGroups) {
  Cut c = wide(3000);
  const size_t count = c.regions.size();
  const auto groups = bring_together(&c.regions);
  ASSERT_EQ(c.regions.size(), count);
  // Two of three read graph inputs alone: 2,000 in groups of eight. Another joins where what it reads is made before.
  EXPECT_GE(groups.size(), 250u);
  size_t end = 0, grouped = 0;
  for (const std::vector<Sibling>& group : groups) {
    EXPECT_GE(group.front().region, end);
    EXPECT_LE(group.size(), kMaxSiblings);
    for (const Sibling& s : group) {
      EXPECT_TRUE(s.whole);
      EXPECT_EQ(s.region, group.front().region + static_cast<size_t>(&s - group.data())) << "side by side";
      EXPECT_EQ(c.regions[s.region].nodes[0]->op, "matmul");
    }
    grouped += group.size();
    end = group.back().region + 1;
  }
  EXPECT_GE(grouped, 2000u);
  std::set<const ir::Value*> made(c.graph.inputs.begin(), c.graph.inputs.end());
  for (const Region& r : c.regions) {
    for (const ir::Value* v : r.inputs) ASSERT_TRUE(made.contains(v)) << "it runs before what feeds it";
    made.insert(r.outputs.begin(), r.outputs.end());
  }
}

// What a kernel takes may stand as one; nothing is split for the sake of its parts alone.
PartRules accepted_joins(tune::Tuner& tuner) {
  return {[](const Region&, const Region&, const Region&) { return std::nullopt; },
          [&](const Region& r) {
            const auto here = exec::bind_region(region_graph(r), {});
            return here.ok() && tuner.accepted(*here, constant_inputs(r));
          }};
}

// As gpt2 has its queries, keys and values: one product that is only split.
TEST(Siblings, AProductThatIsSplitIsAGroupWhosePartsAreWrittenWhereTheyAreRead) {
  auto g = ir::parse_graph(
      "graph { input x: f32[2,5,16]; const w: f32[16,48] = seeded(0.2, 1); const b: f32[48] = seeded(0.2, 2); m = "
      "matmul(x, w); s = add(m, b); q, k, v = split(s) {axis=2, num_outputs=3}; p = softmax(q); n = tanh(k); output p; "
      "output n; output v }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(passes::run_pipeline(*g, {}).ok());
  tune::Options unmeasured;
  unmeasured.measure = unmeasured.verify = false;
  tune::Tuner tuner(unmeasured);
  const PartRules rules = accepted_joins(tuner);
  const Parts parts = parts_of(*g, cut_regions(*g, rules.joins), rules);
  const auto products = [](const Part& p) {
    return std::count_if(p.region.nodes.begin(), p.region.nodes.end(), [](auto* n) { return n->op == "matmul"; });
  };
  const auto all = std::find_if(parts.list.begin(), parts.list.end(), [&](const Part& p) { return products(p) == 3; });
  ASSERT_NE(all, parts.list.end()) << ir::print(*g);
  EXPECT_EQ(all->region.outputs.size(), 3u);
  for (const ir::Node* n : g->nodes) EXPECT_NE(n->op, "split") << "a copy";
  EXPECT_EQ(std::count_if(parts.list.begin(), parts.list.end(), [&](const Part& p) { return products(p) == 2; }), 3)
      << "any two of them";
}

using Ops = std::vector<std::string>;
Ops ops_of(const Region& r) {
  Ops out;
  for (const ir::Node* n : r.nodes) out.push_back(n->op);
  return out;
}

// A gate of x and the value that it is multiplied with: the product stands behind the gate, and needs the value.
ir::Graph gated() {
  auto g = ir::parse_graph(
      "graph { input x: f32[6,32]; const wg: f32[32,32] = seeded(0.2, 1); const wu: f32[32,32] = seeded(0.2, 2); p = "
      "matmul(x, wg); e = sigmoid(p); s = mul(p, e); u = matmul(x, wu); y = mul(s, u); output y }");
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok());
  return std::move(*g);
}
TEST(Parts, AGateStandsWithItsValueAsFarAsItDoesNotNeedIt) {
  const ir::Graph g = gated();
  tune::Options unmeasured;
  unmeasured.measure = unmeasured.verify = false;
  tune::Tuner tuner(unmeasured);
  const PartRules rules = accepted_joins(tuner);
  const std::vector<Region> regions = cut_regions(g, rules.joins);
  ASSERT_EQ(regions.size(), 2u);
  ASSERT_EQ(ops_of(regions[1]), (Ops{"matmul", "sigmoid", "mul", "mul"})) << "the gate reads the value";
  const Parts parts = parts_of(g, regions, rules);
  const auto group =
      std::find_if(parts.list.begin(), parts.list.end(), [](const Part& p) { return p.region.outputs.size() > 1; });
  ASSERT_NE(group, parts.list.end());
  EXPECT_EQ(ops_of(group->region), (Ops{"matmul", "sigmoid", "mul", "matmul"})) << "the longest that may";
  EXPECT_EQ(group->atoms, (std::vector<int>{0, 1}));
  const auto rest =
      std::find_if(parts.list.begin(), parts.list.end(), [](const Part& p) { return p.atoms == std::vector{2}; });
  ASSERT_NE(rest, parts.list.end());
  EXPECT_EQ(ops_of(rest->region), Ops{"mul"});
  const auto here = exec::bind_region(region_graph(group->region), {});
  ASSERT_TRUE(here.ok());
  EXPECT_EQ(tuner.offers(*here, constant_inputs(group->region)).list.at(0).kernel->name, "gemm_siblings_f32");
}

// Of chains over one value of which no kernel takes all, each stands with the others as far as one does.
TEST(Parts, SiblingsStandTogetherByBeginningsWhereTheyDoNotWhole) {
  auto g = ir::parse_graph(
      "graph { input x: f32[6,8]; const a: f32[8,8] = seeded(0.2, 1); const b: f32[8,8] = seeded(0.2, 2); const c: "
      "f32[8,8] = seeded(0.2, 3); p = matmul(x, a); q = relu(p); s = exp(q); t = matmul(x, b); u = exp(t); v = "
      "matmul(x, c); output s; output u; output v }");
  ASSERT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok());
  const std::vector<Region> regions = cut_regions(*g, [](const Region&) { return true; });
  ASSERT_EQ(regions.size(), 3u);
  const auto has_exp = [](const Region& r) {
    return std::any_of(r.nodes.begin(), r.nodes.end(), [](auto* n) { return n->op == "exp"; });
  };
  const PartRules rules = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                           [&](const Region& r) { return r.outputs.size() == 1 || !has_exp(r); }};
  const Parts parts = parts_of(*g, regions, rules);
  ASSERT_EQ(parts.atoms, 5) << "two rests";
  std::vector<Ops> groups;
  for (const Part& p : parts.list)
    if (p.region.outputs.size() > 1) groups.push_back(ops_of(p.region));
  std::sort(groups.begin(), groups.end());
  EXPECT_EQ(groups, (std::vector<Ops>{{"matmul", "matmul"},
                                      {"matmul", "relu", "matmul"},
                                      {"matmul", "relu", "matmul"},
                                      {"matmul", "relu", "matmul", "matmul"}}));
  // Whatever is chosen with the group of all, the rests run behind it.
  for (const Part& p : parts.list) {
    if (p.region.outputs.size() == 3) EXPECT_EQ(p.atoms.back(), 2);
    if (has_exp(p.region) && p.region.nodes.size() == 1) EXPECT_GT(p.atoms.back(), 2);
  }
  // A lock that has the group and both rests gives them back.
  plan::Lock lock;
  for (const Part& p : parts.list)
    if (p.region.outputs.size() == 3 || (has_exp(p.region) && p.region.nodes.size() == 1))
      lock.regions.push_back({.name = region_name(p.region), .key = region_key(p.region)});
  ASSERT_EQ(lock.regions.size(), 3u);
  const plan::LockReader reader(&lock);
  const Parts under = locked_parts(*g, reader, parts_of(*g, regions, locked_rules(reader)));
  ASSERT_EQ(under.list.size(), 3u);
  EXPECT_EQ(under.list[0].region.outputs.size(), 3u);
}

// The first of three equal siblings with either of the others is one problem of one name: what is left tells which.
TEST(Parts, ALockTellsWhichSiblingsStandTogether) {
  auto g = ir::parse_graph(
      "graph { input x: f32[6,8]; const a: f32[8,8] = seeded(0.2, 1); const b: f32[8,8] = seeded(0.2, 2); const c: "
      "f32[8,8] = seeded(0.2, 3); p = matmul(x, a); q = matmul(x, b); r = matmul(x, c); output p; output q; output r "
      "}");
  ASSERT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok());
  const std::vector<Region> regions = cut_regions(*g, [](const Region&) { return true; });
  ASSERT_EQ(regions.size(), 3u);
  const PartRules all = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                         [](const Region&) { return true; }};
  const Parts parts = parts_of(*g, regions, all);
  const auto names = [](const Region& r) {
    std::vector<std::string> out;
    for (const ir::Node* n : r.nodes) out.push_back(n->out()->name);
    return out;
  };
  using Names = std::vector<std::string>;
  for (const auto& [together, alone] :
       {std::pair<Names, Names>{{"p", "q"}, {"r"}}, {{"p", "r"}, {"q"}}, {{"q", "r"}, {"p"}}}) {
    plan::Lock lock;
    for (const Part& p : parts.list)
      if (names(p.region) == together || names(p.region) == alone)
        lock.regions.push_back({.name = region_name(p.region), .key = region_key(p.region)});
    ASSERT_EQ(lock.regions.size(), 2u);
    const plan::LockReader reader(&lock);
    const Parts under = locked_parts(*g, reader, parts_of(*g, regions, locked_rules(reader)));
    std::vector<Names> got;
    for (const Part& p : under.list) got.push_back(names(p.region));
    std::sort(got.begin(), got.end(), [](const Names& a, const Names& b) { return a.size() > b.size(); });
    EXPECT_EQ(got, (std::vector<Names>{together, alone}));
  }
}

// The beginning of a chain stands with its siblings, and its rest with what reads it: in no lock stands either alone.
TEST(Parts, ALockGivesBackARestThatIsJoinedBehindSiblings) {
  auto g = ir::parse_graph(
      "graph { input x: f32[6,8]; const a: f32[8,8] = seeded(0.2, 1); const b: f32[8,8] = seeded(0.2, 2); const c: "
      "f32[8,8] = seeded(0.2, 3); p = matmul(x, a); q = matmul(x, b); s = softmax(q); m = mul(p, s); r = matmul(x, "
      "c); y = sum(m, r); output y }");
  ASSERT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok());
  const std::vector<Region> regions = cut_regions(*g, [](const Region& r) { return r.nodes.back()->op != "sum"; });
  const PartRules all = {
      [](const Region&, const Region&, const Region&) { return std::optional(std::vector<const kernels::Kernel*>()); },
      [](const Region&) { return true; }, true};
  plan::Lock lock;
  const std::vector<Ops> wanted = {{"matmul", "matmul", "matmul"}, {"softmax"}, {"mul", "sum"}};
  for (const Part& p : parts_of(*g, regions, all).list)
    if (std::find(wanted.begin(), wanted.end(), ops_of(p.region)) != wanted.end())
      lock.regions.push_back({.name = region_name(p.region), .key = region_key(p.region)});
  ASSERT_EQ(lock.regions.size(), 3u);
  const plan::LockReader reader(&lock);
  std::vector<Ops> got;
  for (const Part& p : locked_parts(*g, reader, parts_of(*g, regions, locked_rules(reader))).list)
    got.push_back(ops_of(p.region));
  EXPECT_EQ(got, wanted);
}

}  // namespace
}  // namespace peri::lower
