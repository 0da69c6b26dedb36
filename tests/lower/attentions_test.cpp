// Which regions of a cut are an attention that no op states.
#include "lower/attentions.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lower/parts.hpp"
#include "ops/entry.hpp"

namespace peri::lower {
namespace {

// Scores of q and k behind a chain, their softmax, and the product by v; `more`: another output of the graph.
ir::Graph attention(const std::string& more) {
  auto g = ir::parse_graph(
      "graph { input q: u8[2,5,3,16]; input k: u8[2,7,3,16]; input v: u8[2,3,7,16]; input m: u8[2,1,1,7]; const s: "
      "f32[] "
      "= [0.02]; const z: u8[] = [119]; a = transpose(q) {perm=[0, 2, 1, 3]}; b = transpose(k) {perm=[0, 2, 3, 1]}; d "
      "= "
      "qlinear_matmul(a, s, z, b, s, z, s, z); f = from_bytes(d, s, z); n = from_bytes(m, s, z); h = add(f, n); p = "
      "softmax(h); r = to_bytes(p, s, z); u = qlinear_matmul(r, s, z, v, s, z, s, z); y = transpose(u) {perm=[0, 2, "
      "1, 3]}; output y" +
      more + " }");
  EXPECT_TRUE(g.ok()) << g.error().text();
  EXPECT_TRUE(ops::infer_graph(*g).ok());
  return std::move(*g);
}

// The largest part, by ops, where everything may be joined.
std::vector<std::string> largest(const ir::Graph& g) {
  const PartRules all = {[](const Region&, const Region&, const Region&) { return std::nullopt; },
                         [](const Region&) { return true; }};
  const Parts parts = parts_of(g, cut_regions(g, [](const Region& r) { return r.nodes.size() < 4; }), all);
  std::vector<std::string> out;
  for (const Part& p : parts.list) {
    if (p.region.nodes.size() <= out.size()) continue;
    out.clear();
    for (const ir::Node* n : p.region.nodes) out.push_back(n->op);
  }
  return out;
}

TEST(Attentions, ReachFromTheTransposesBeforeToTheOneBehind) {
  const std::vector<std::string> ops = largest(attention(""));
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "transpose"), 3);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "qlinear_matmul"), 2);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "softmax"), 1);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "to_bytes"), 1);
}

// What others read has to be stored: probabilities, scores.
TEST(Attentions, EndWhereAnotherReads) {
  for (const char* more : {"; output r", "; output h", "; output d"}) {
    const std::vector<std::string> ops = largest(attention(more));
    EXPECT_LT(std::count(ops.begin(), ops.end(), "transpose") + std::count(ops.begin(), ops.end(), "qlinear_matmul"), 5)
        << more;
  }
}

// A mask that is transposed is read by the chain, and stays a value of its own.
TEST(Attentions, LeaveTheTransposeOfAMask) {
  auto g = ir::parse_graph(
      "graph { input q: u8[2,3,5,16]; input k: u8[2,3,16,7]; input v: u8[2,3,7,16]; input m: f32[7,5]; const s: f32[] "
      "= "
      "[0.02]; const z: u8[] = [119]; t = transpose(m) {perm=[1, 0]}; d = qlinear_matmul(q, s, z, k, s, z, s, z); f = "
      "from_bytes(d, s, z); h = add(f, t); p = softmax(h); r = to_bytes(p, s, z); u = qlinear_matmul(r, s, z, v, s, z, "
      "s, z); output u }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  const std::vector<Region> cut = cut_regions(*g, [](const Region&) { return true; });
  std::vector<const Region*> regions;
  std::vector<std::optional<size_t>> readers(cut.size());
  for (const Region& r : cut) regions.push_back(&r);
  for (size_t k = 0; k < cut.size(); ++k)
    for (size_t other = 0; other < cut.size(); ++other)
      if (std::count(cut[other].inputs.begin(), cut[other].inputs.end(), cut[k].outputs[0])) readers[k] = other;
  const auto found = attentions(regions, readers);
  ASSERT_EQ(found.size(), 1u);
  for (const size_t k : found[0]) EXPECT_NE(cut[k].nodes.front()->op, "transpose");
}

TEST(Attentions, OfNoProductsAreNone) {
  auto g = ir::parse_graph("graph { input x: f32[2,5]; a = relu(x); b = softmax(a); y = exp(b); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  std::vector<Region> cut = cut_regions(*g, [](const Region& r) { return r.nodes.size() < 2; });
  std::vector<const Region*> regions;
  for (const Region& r : cut) regions.push_back(&r);
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_TRUE(attentions(regions, std::vector<std::optional<size_t>>{1, 2, std::nullopt}).empty());
}

}  // namespace
}  // namespace peri::lower
