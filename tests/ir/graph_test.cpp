// The text form parses back, the structure holds under edits, and broken text is refused.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "ir/graph.hpp"

namespace peri::ir {
namespace {

constexpr std::string_view kText = R"(graph "net" {
  input x: f32[batch,3,224,224];
  input ids: i64[batch,`my sequence`,2*`x.shape[0]` + `a, b`];
  const w: f32[2,2] = [1.5, -2.0, inf, 1e-05];
  const b: i64[3] = [1, -2, 3];
  const e: f32[0] = [];
  y: f32[batch,3,224,224], "odd name": i64[?] = foo(x, _, w) {axes=[1, 2], e=ints[], f=floats[], k=3, mode="a\"b", scale=0.5, shape=dims[batch,2*batch + 1], t=tensor i32[2] [1, 2]} "n1" from ["a", "b"];
  z: f32[1,64,7,7]@0231 = bar("odd name", b) {body=graph {
  input p: f32[];
  q = relu(p);
  output q;
}
};
  output y as "result";
  output z;
}
)";

TEST(Graph, TextRoundTrips) {
  auto g = parse_graph(kText);
  ASSERT_TRUE(g.ok()) << g.error().text();
  EXPECT_TRUE(verify_structure(*g).ok());
  auto again = parse_graph(print(*g));
  ASSERT_TRUE(again.ok()) << again.error().text() << print(*g);
  EXPECT_EQ(print(*g), print(*again));
  EXPECT_TRUE(equal(*g, *again));
  Graph c = g->clone();
  EXPECT_EQ(print(*g), print(c));
  EXPECT_TRUE(verify_structure(c).ok());
}

TEST(Graph, EqualSeesDifferences) {
  auto a = parse_graph("graph { input x: f32[2]; y = relu(x); output y }");
  auto b = parse_graph("graph { input q: f32[2]; r = relu(q); output r as \"y\" }");
  auto c = parse_graph("graph { input q: f32[2]; r = tanh(q); output r as \"y\" }");
  auto d = parse_graph("graph { input q: f32[3]; r = relu(q); output r as \"y\" }");
  ASSERT_TRUE(a.ok() && b.ok() && c.ok() && d.ok());
  EXPECT_TRUE(equal(*a, *b));
  EXPECT_FALSE(equal(*a, *c));
  EXPECT_FALSE(equal(*a, *d));
}

TEST(Graph, EditsKeepUseLists) {
  auto g = parse_graph("graph { input x: f32[2]; a = relu(x); b = add(a, a); c = mul(b, a); output c }");
  ASSERT_TRUE(g.ok());
  g->replace_uses(g->find("a"), g->find("x"));
  EXPECT_TRUE(verify_structure(*g).ok());
  EXPECT_EQ(g->find("x")->users.size(), 4u);
  EXPECT_EQ(g->erase_dead(), 1);
  EXPECT_TRUE(verify_structure(*g).ok());
  EXPECT_EQ(g->find("a"), nullptr);
}

TEST(Graph, SortFindsCycle) {
  auto g = parse_graph("graph { input x: f32[2]; a = relu(x); b = relu(a); output b }");
  ASSERT_TRUE(g.ok());
  g->set_input(g->nodes[0], 0, g->find("b"));
  EXPECT_FALSE(g->sort().ok());
}

TEST(Graph, OneValueMayBeTwoOutputs) {
  auto g = parse_graph("graph { input x: f32[2]; y = relu(x); output y; output y }");
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(g->output_names, (std::vector<std::string>{"y", "y.1"}));
  EXPECT_TRUE(verify_structure(*g).ok());
  EXPECT_EQ(print(*parse_graph(print(*g))), print(*g));
}

TEST(Graph, BrokenTextIsRefused) {
  for (std::string_view bad :
       {"", "graph", "graph {", "graph { y = relu(x); }", "graph { input x: f33[2]; }",
        "graph { input x: f32[2]; input x: f32[2]; }", "graph { const c: f32[3] = [1, 2]; }",
        "graph { const c: f32[99999999999999999999]= [1]; }",
        "graph { const c: f32[4611686018427387904,4] = splat(1); }", "graph { input x: f32[2]@01; }",
        "graph { output y }", "graph { const c: c64[1] = [1]; output c }",
        "graph { const c: c128[2] = splat(1); output c }", "graph { const c: c64[1] = seeded(1.0, 2); output c }",
        "graph { input x: f32[2]; y = relu(x); output x; output y as \"x\" }", "graph {} trailing"}) {
    EXPECT_FALSE(parse_graph(bad).ok()) << bad;
  }
}

// Every cut and many random edits of a valid text either parse or are refused; none may crash.
TEST(Graph, DamagedTextNeverCrashes) {
  const std::string good(kText);
  for (size_t n = 0; n < good.size(); ++n) (void)parse_graph(std::string_view(good).substr(0, n)).ok();
  Rng rng(1);
  for (int k = 0; k < 3000; ++k) {
    std::string bad = good;
    for (int edits = 0; edits < 3; ++edits)
      bad[static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())))] = static_cast<char>(32 + rng.below(95));
    auto g = parse_graph(bad);
    if (g.ok()) EXPECT_TRUE(verify_structure(*g).ok()) << bad;
  }
}

}  // namespace
}  // namespace peri::ir
