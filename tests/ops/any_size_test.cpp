// What holds_at_any_size() says of a node is true: every sample of every op with its sizes made symbols, bound to small
// sizes, zero and one among them, is inferred anew and gives what the symbols gave.
#include "ops/shape/any_size.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.hpp"
#include "ops/entry.hpp"

namespace peri::ops {
namespace {

constexpr uint64_t kSeed = 7;

// Some sizes of the inputs become symbols: equal ones the same, or each its own, or the batch alone.
void make_symbolic(ir::Graph* g, Rng* rng, std::set<std::string>* symbols) {
  for (ir::Node* n : g->nodes)
    for (ir::Value* v : n->outputs) v->type.shape.reset();
  if (rng->below(4) == 0 && !g->inputs.empty() && g->inputs[0]->type.shape && !g->inputs[0]->type.shape->empty()) {
    symbols->insert("batch");
    (*g->inputs[0]->type.shape)[0] = Dim::symbol("batch");
    return;
  }
  const bool own = rng->below(3) == 0;
  const int64_t keep = rng->below(4);
  for (ir::Value* v : g->inputs)
    for (size_t axis = 0; v->type.shape && axis < v->type.rank(); ++axis) {
      Dim& d = (*v->type.shape)[axis];
      if (!d.is_const() || d.is_const(1) || rng->below(4) < keep) continue;
      std::string name = "n" + std::to_string(d.value());
      if (own) name += "_" + std::to_string(symbols->size());
      symbols->insert(name);
      d = Dim::symbol(name);
    }
}

// Inferred anew with numbers put in, node `k` gives its types with numbers put in.
void check(const ir::Graph& known, size_t k, const DimBinding& binding, const std::string& what) {
  ir::Graph g = known.clone();
  for (const auto& v : g.values()) {
    v->type.shape = substitute(*v->type.shape, binding);
    if (v->content) v->content = substitute(*v->content, binding);
  }
  ir::Node& n = *g.nodes[k];
  std::vector<ir::Value> want;
  for (const ir::Value* v : n.outputs) want.push_back(*v);
  int64_t fresh = 0;
  const Status done = infer_node(n, &fresh);
  ASSERT_TRUE(done.ok()) << what << ": " << done.error().text();
  for (size_t j = 0; j < want.size(); ++j) {
    EXPECT_EQ(ir::type_text(n.outputs[j]->type), ir::type_text(want[j].type)) << what;
    EXPECT_EQ(n.outputs[j]->content, want[j].content) << what;
  }
}

void try_sample(std::string_view text, uint64_t seed, std::set<std::string>* held) {
  Rng rng(seed);
  auto g = ir::parse_graph(text);
  ASSERT_TRUE(g.ok()) << text;
  std::set<std::string> symbols;
  make_symbolic(&*g, &rng, &symbols);
  if (symbols.empty() || !infer_graph(*g).ok()) return;
  for (size_t k = 0; k < g->nodes.size(); ++k) {
    if (!holds_at_any_size(*g->nodes[k])) continue;
    held->insert(g->nodes[k]->op);
    for (int turn = 0; turn < 6; ++turn) {
      DimBinding binding;
      for (const std::string& s : symbols) binding[s] = std::vector<int64_t>{0, 1, 2, 3, 5, 96}[rng.below(6)];
      check(*g, k, binding, std::string(text) + " as " + ir::print(*g));
    }
  }
}

TEST(AnySize, WhatIsSaidToHoldHolds) {
  std::set<std::string> held;
  uint64_t seed = kSeed;
  for (const OpDef* op : all())
    for (const std::string_view text : op->samples)
      for (int turn = 0; turn < 12; ++turn) try_sample(text, seed++, &held);
  for (const char* op : {"add", "cast", "gelu", "mul", "where"}) EXPECT_TRUE(held.contains(op)) << op;
  for (const OpDef* op : all())
    if (op->any_size)
      EXPECT_TRUE(held.contains(std::string(op->name))) << op->name << " states a rule that no sample meets";
}

bool holds(const std::string& text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && infer_graph(*g).ok()) << text;
  return holds_at_any_size(*g->nodes.back());
}

// What inference leaves open while sizes are symbols has to be looked at with numbers.
TEST(AnySize, OpenQuestionsDoNotHold) {
  EXPECT_TRUE(holds("graph { input a: f32[n,k]; input b: f32[k,m]; y = matmul(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input a: f32[n,k]; input b: f32[l,m]; y = matmul(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input a: f32[n,k]; input b: f32[4,m]; y = matmul(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input a: f32[n,k]; input b: f32[m,l]; y = gemm(a, b) {transB=1}; output y }"));
  EXPECT_TRUE(holds("graph { input a: f32[n,4]; input b: f32[4]; y = add(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input a: f32[n]; input b: f32[m]; y = add(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input a: f32[n]; input b: f32[4]; y = add(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input a: f32[n,4]; input b: f32[1,4]; y = swiglu(a, b); output y }"));
  EXPECT_FALSE(holds("graph { input x: f32[n]; const i: i64[1] = [3]; y = gather(x, i); output y }"));
  EXPECT_FALSE(holds("graph { input x: f32[n]; s = shape(x); t = add(s, s); output t }"));
  EXPECT_FALSE(holds("graph { input x: f32[2*n]; const s: i64[2] = [2,-1]; y = reshape(x, s); output y }"));
  EXPECT_FALSE(
      holds("graph { input q: f32[b,2,s,8]; input k: f32[b,2,t,8]; input v: f32[b,2,u,8]; y = attention(q, k, "
            "v); output y }"));
}

}  // namespace
}  // namespace peri::ops
