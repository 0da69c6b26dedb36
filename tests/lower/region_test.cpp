// Cutting a graph into regions: every node stands in one at most, all but views in one, and whatever a region reads is
// made by regions before it, on graphs whose branches leave and meet again in every way.
#include "lower/region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_map>

#include "base/rng.hpp"
#include "lower/parts.hpp"
#include "lower/variants.hpp"
#include "ops/entry.hpp"
#include "tune/sample_regions.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {
namespace {

constexpr int kGraphs = 10000;

// Products, normalisations, views and element-wise ops over [8,8], each reading any values made before.
ir::Graph random_graph(Rng& rng) {
  ir::Graph g;
  std::vector<ir::Value*> made;
  const Shape square = {Dim(8), Dim(8)};
  for (int k = 0; k < 2; ++k) made.push_back(g.add_input("x" + std::to_string(k), ir::Type(DType::kF32, square)));
  const int64_t count = 4 + rng.below(24);
  // Mostly near values, so that chains form; sometimes any.
  const auto any = [&] {
    const int64_t n = static_cast<int64_t>(made.size()), back = rng.below(4) == 0 ? n : std::min<int64_t>(n, 3);
    return made[static_cast<size_t>(n - 1 - rng.below(back))];
  };
  for (int64_t k = 0; k < count; ++k) {
    const std::string name = "v" + std::to_string(k);
    ir::Node* n = nullptr;
    switch (rng.below(8)) {
      case 0: n = g.add("matmul", {rng.below(2) == 0 ? made[0] : any(), any()}, {}, name); break;
      case 1: n = g.add("softmax", {any()}, {}, name); break;
      case 2: n = g.add("identity", {any()}, {}, name); break;
      case 3: n = g.add("relu", {any()}, {}, name); break;
      case 4: n = g.add("sigmoid", {any()}, {}, name); break;
      case 5: n = g.add("mul", {any(), any()}, {}, name); break;
      default: n = g.add("add", {any(), any()}, {}, name); break;
    }
    made.push_back(n->out());
  }
  for (size_t k = 2; k < made.size(); ++k)
    if (made[k]->users.empty() || rng.below(8) == 0) g.mark_output(made[k], made[k]->name);
  return g;
}

TEST(Regions, OrderOfRegionsIsSoundOnRandomGraphs) {
  for (int seed = 0; seed < kGraphs; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    ir::Graph g = random_graph(rng);
    ASSERT_TRUE(ops::infer_graph(g).ok()) << "seed " << seed;
    // What kernels take is not this test's concern: a seeded half of all longer regions is.
    const auto accepts = [&](const Region& r) { return r.nodes.size() == 1 || rng.below(2) == 0; };
    const std::vector<Region> regions = cut_regions(g, accepts);
    std::unordered_map<const ir::Node*, size_t> owner;
    for (size_t k = 0; k < regions.size(); ++k)
      for (const ir::Node* n : regions[k].nodes) ASSERT_TRUE(owner.emplace(n, k).second) << "seed " << seed;
    for (const ir::Node* n : g.nodes) ASSERT_TRUE(owner.contains(n) || is_view(*n)) << "seed " << seed;
    for (size_t k = 0; k < regions.size(); ++k)
      for (const ir::Value* v : regions[k].inputs) {
        while (v->producer && !owner.contains(v->producer)) v = v->producer->in(0);
        if (v->producer) {
          ASSERT_LT(owner.at(v->producer), k) << "seed " << seed << "\n" << ir::print(g);
        }
      }
  }
}

// Whatever splits and joins are taken, at random, the regions have an order and hold every node once.
TEST(Parts, AnyCoverOfThemHasAnOrderOnRandomGraphs) {
  int64_t splits = 0, joins = 0, siblings = 0, by_beginnings = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    ir::Graph g = random_graph(rng);
    ASSERT_TRUE(ops::infer_graph(g).ok()) << "seed " << seed;
    const auto accepts = [&](const Region& r) { return r.nodes.size() == 1 || rng.below(2) == 0; };
    std::vector<Region> cut = cut_regions(g, accepts);
    size_t nodes = 0;
    for (const Region& r : cut) nodes += r.nodes.size();
    const PartRules rules = {[&](const Region&, const Region&, const Region&) {
                               return rng.below(2) == 0 ? std::optional(std::vector<const kernels::Kernel*>())
                                                        : std::nullopt;
                             },
                             [&](const Region&) { return rng.below(2) == 0; }};
    Parts parts = parts_of(g, std::move(cut), rules);
    std::vector<bool> covered(static_cast<size_t>(parts.atoms));
    std::vector<Region> chosen;
    // What covers the next atom: any part that begins there and fits.
    for (int atom = 0; atom < parts.atoms; ++atom) {
      if (covered[static_cast<size_t>(atom)]) continue;
      std::vector<Part*> fit;
      for (Part& p : parts.list)
        if (p.atoms.front() == atom &&
            std::none_of(p.atoms.begin(), p.atoms.end(), [&](int a) { return covered[static_cast<size_t>(a)]; }))
          fit.push_back(&p);
      ASSERT_FALSE(fit.empty()) << "seed " << seed;
      Part& p = *fit[static_cast<size_t>(rng.below(static_cast<int64_t>(fit.size())))];
      for (int a : p.atoms) covered[static_cast<size_t>(a)] = true;
      splits += p.whole.has_value();
      joins += !p.greedy && !p.whole;
      siblings += !p.greedy && !p.whole && p.region.outputs.size() > 1;
      // A region of the cut that it holds some atoms of, and not all.
      by_beginnings += !p.greedy && p.region.outputs.size() > 1 &&
                       std::any_of(parts.list.begin(), parts.list.end(), [&](const Part& cut_one) {
                         const auto in = [&](int a) { return std::binary_search(p.atoms.begin(), p.atoms.end(), a); };
                         return cut_one.greedy && in(cut_one.atoms.front()) && !in(cut_one.atoms.back());
                       });
      chosen.push_back(std::move(p.region));
    }
    const std::vector<Region> ordered = in_order(g, std::move(chosen));  // a cycle ends the process
    size_t held = 0;
    for (const Region& r : ordered) held += r.nodes.size();
    EXPECT_EQ(held, nodes) << "seed " << seed;
  }
  EXPECT_GT(splits, 1000);
  EXPECT_GT(joins, 1000);
  EXPECT_GT(siblings, 100);
  EXPECT_GT(by_beginnings, 20);
}

// An op that some kernel takes with what is behind it says that it is an anchor: else nobody ever asks that kernel.
TEST(Anchors, EveryOpThatAKernelTakesWithAnEpilogue) {
  tune::Options options;
  options.measure = options.verify = false;
  tune::Tuner tuner(options);
  int taken = 0;
  for (const tune::SampleProblem& p : tune::common_problems()) {
    const ir::Node& first = *p.region.nodes[0];
    const ops::OpDef& op = *ops::find(first.op);
    if (op.elementwise || op.view || p.region.nodes.size() < 2) continue;
    const bool chain = std::all_of(p.region.nodes.begin() + 1, p.region.nodes.end(),
                                   [](const ir::Node* n) { return ops::find(n->op)->elementwise; });
    if (!chain || !tuner.accepted(p.region, p.constant)) continue;
    ++taken;
    EXPECT_TRUE(op.anchor) << op.name << " with an epilogue is taken by a kernel:\n" << ir::print(p.region);
  }
  EXPECT_GT(taken, 100);
}

// A region whose last node comes late in the order feeds a node that comes early: a path through it leads back.
TEST(Regions, PathThroughARegionThatEndsLater) {
  auto g = ir::parse_graph(
      "graph { input a: f32[8,8]; input w: f32[8,8]; p = matmul(a, w); q = matmul(p, w); s = sigmoid(q); t = add(s, p);"
      " u = relu(t); output u }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const std::vector<Region> regions = cut_regions(*g, [](const Region&) { return true; });
  size_t nodes = 0;
  for (const Region& r : regions) nodes += r.nodes.size();
  EXPECT_EQ(nodes, 5u);
}

// Three samples leave no frame of ten: the sizes at which a choice must hold too are those at which there is something.
TEST(OtherDims, AreSizesAtWhichNothingVanishes) {
  auto g = ir::parse_graph(
      "graph { input x: f32[n,1,s]; const w: f32[4,1,10] = splat(1); y = conv(x, w) {strides=[5]}; z = relu(y); "
      "output z }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  const DimBinding at = other_dims(*g, {{"n", 1}, {"s", 16000}});
  EXPECT_EQ(at.at("n"), 3);
  const auto length = (*g->outputs[0]->type.shape)[2].eval(at);
  ASSERT_TRUE(length.ok());
  EXPECT_GT(*length, 0);
  EXPECT_EQ(other_dims(*g, {{"n", 1}, {"s", 37}}).at("s"), 37) << "small where that is enough";
}

// Bytes that an addition widens are read as bytes: the region of the product holds both widenings.
TEST(Regions, TakeWhatWidensBytesForThem) {
  auto g = ir::parse_graph(
      "graph { input x: u8[4,8]; input o: u8[4,6]; const s: f32[] = [0.5]; const z: u8[] = [3]; b = from_bytes(o, s, "
      "z); const w: i8[8,6] = splat(2); const t: f32[] = [0.25]; const v: i8[] = [0]; p = qlinear_matmul(x, s, z, w, "
      "t, "
      "v, s, z); a = from_bytes(p, s, z); c = add(a, b); y = to_bytes(c, s, z); output y }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  const std::vector<Region> cut = cut_regions(*g, [](const Region&) { return true; });
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut[0].nodes.front()->op, "qlinear_matmul") << "the anchor comes first";
  EXPECT_EQ(cut[0].inputs.size(), 3U) << "two tensors of bytes and the weight";
}

// As where a limit of memory lets no candidate be tried: it is no fault of the program.
TEST(Conversions, TellWhyNoneIsLeft) {
  const std::vector<std::pair<std::string, std::string>> refusals = {{"relayout@1 {}", "cannot allocate 8 bytes"}};
  const Error none = no_conversion("mid", refusals);
  EXPECT_EQ(none.kind, ErrorKind::kRefused);
  EXPECT_NE(none.text().find("'mid'"), std::string::npos);
  EXPECT_NE(none.found.find("relayout@1 {}: cannot allocate 8 bytes"), std::string::npos) << none.text();
  EXPECT_NE(none.remedy.find("memory"), std::string::npos);
  EXPECT_EQ(no_conversion("mid", {}).found, "none");
}

}  // namespace
}  // namespace peri::lower
