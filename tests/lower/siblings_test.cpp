// Siblings of a wide graph come together in groups, whatever stands between them, and nothing moves before what feeds
// it.
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
  for (const auto& [first, last] : groups) {
    EXPECT_GE(first, end);
    EXPECT_LE(last - first, kMaxSiblings);
    for (size_t k = first; k < last; ++k) EXPECT_EQ(c.regions[k].nodes[0]->op, "matmul");
    grouped += last - first;
    end = last;
  }
  EXPECT_GE(grouped, 2000u);
  std::set<const ir::Value*> made(c.graph.inputs.begin(), c.graph.inputs.end());
  for (const Region& r : c.regions) {
    for (const ir::Value* v : r.inputs) ASSERT_TRUE(made.contains(v)) << "it runs before what feeds it";
    made.insert(r.outputs.begin(), r.outputs.end());
  }
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
  const auto accepted = [&](const Region& r) {
    const auto here = exec::bind_region(region_graph(r), {});
    return here.ok() && tuner.accepted(*here, constant_inputs(r));
  };
  const PartRules rules = {[](const Region&, const Region&, const Region&) { return std::nullopt; }, accepted};
  const Parts parts = parts_of(*g, cut_regions(*g, accepted), rules);
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

}  // namespace
}  // namespace peri::lower
