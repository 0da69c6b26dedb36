// A region that was inferred once and bound by numbers is the region inferred at those numbers: types, contents and
// errors, for every sample of every op with its sizes made symbols, whatever was bound before.
#include "exec/region/region_template.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/rng.hpp"
#include "exec/region/region_payload.hpp"
#include "ops/entry.hpp"

namespace peri::exec {
namespace {

constexpr uint64_t kSeed = 5;

std::string facts(const ir::Graph& g) {
  std::string out = ir::print(g);
  for (const auto& v : g.values())
    if (v->content && !v->constant) out += v->name + " is " + shape_text(*v->content) + "\n";
  return out;
}

void compare(RegionTemplate* region, const DimBinding& binding) {
  for (const bool partial : {false, true}) {
    const auto want = bind_region(region->region(), binding, partial);
    const auto have = region->bind(binding, partial);
    ASSERT_EQ(have.ok(), want.ok()) << ir::print(region->region())
                                    << (want.ok() ? have.error().text() : want.error().text());
    if (want.ok())
      ASSERT_EQ(facts(have->graph()), facts(*want)) << ir::print(region->region());
    else
      ASSERT_EQ(have.error().text(), want.error().text());
  }
}

// Some sizes of the inputs as symbols, the results as inference with them says.
std::optional<ir::Graph> symbolic(std::string_view text, Rng* rng, std::set<std::string>* symbols) {
  ir::Graph g = ir::parse_graph(text).value();
  const bool own = rng->below(2) == 0;
  for (ir::Value* v : g.inputs)
    for (size_t axis = 0; v->type.shape && axis < v->type.rank(); ++axis) {
      Dim& d = (*v->type.shape)[axis];
      if (!d.is_const() || rng->below(3) == 0) continue;
      const std::string name = "n" + std::to_string(d.value()) + (own ? "_" + std::to_string(symbols->size()) : "");
      symbols->insert(name);
      d = Dim::symbol(name) + Dim(rng->below(8) == 0);
    }
  for (ir::Node* n : g.nodes)
    for (ir::Value* v : n->outputs) v->type.shape.reset();
  if (symbols->empty() || !ops::infer_graph(g).ok()) return std::nullopt;
  return g;
}

// Kernels multiply sizes without a check, so those of an empty tensor must fit too, symbols or not.
TEST(RegionTemplate, ALongAxisBesideAnEmptyOneIsAnError) {
  for (const char* shape : {"f32[n,4611686018427387904,4]", "f32[0,4611686018427387904,n]"}) {
    auto g = ir::parse_graph("graph { input x: " + std::string(shape) + "; y = relu(x); output y }");
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << shape;
    const auto region = RegionTemplate::create(std::move(*g));
    const auto bound = region->bind({{"n", shape[4] == 'n' ? 0 : 4}}, false);
    ASSERT_FALSE(bound.ok()) << shape;
    EXPECT_NE(bound.error().text().find("overflows"), std::string::npos) << bound.error().text();
  }
}

TEST(RegionTemplate, BindsAsInferenceDoes) {
  uint64_t seed = kSeed;
  int64_t regions = 0, bound = 0;
  for (const ops::OpDef* op : ops::all())
    for (const std::string_view text : op->samples)
      for (int turn = 0; turn < 3; ++turn) {
        Rng rng(seed++);
        std::set<std::string> symbols;
        auto g = symbolic(text, &rng, &symbols);
        if (!g) continue;
        ++regions;
        const auto region = RegionTemplate::create(std::move(*g));
        for (int size = 0; size < 5; ++size) {
          DimBinding binding;
          for (const std::string& s : symbols) {
            const std::string number = s.substr(1, s.find('_') - 1);
            binding[s] = rng.below(3) ? std::stoll(number) : std::vector<int64_t>{0, 1, 2, 3, 50}[rng.below(5)];
          }
          if (rng.below(20) == 0) binding.erase(binding.begin());
          bound += bind_region(region->region(), binding).ok();
          compare(region.get(), binding);
          if (testing::Test::HasFatalFailure()) FAIL() << op->name << " seed " << seed - 1;
        }
      }
  EXPECT_GT(regions, 500);
  EXPECT_GT(bound, 1000);
}

TEST(RegionTemplate, LiesOfAFileAreFoundAtEachSize) {
  for (const char* text :
       {"graph { input a: f32[n,k]; input b: f32[l,m]; y: f32[n,m] = matmul(a, b); output y }",
        "graph { input a: f32[n,k]; input b: f32[k,l]; y: f32[n,m] = matmul(a, b); output y }",
        "graph { input a: f32[n]; input b: f32[m]; y: f32[n] = add(a, b); output y }",
        "graph { input a: f32[n,m]; s = dims_constant() {value=dims[n+m]}; y: f32[n+m] = reshape(a, s); output y }",
        "graph { input a: f32[n,m]; t: f32[l] = relu(a); y: f32[n,m] = relu(t); output y }",
        "graph { input a: f32[n]; s = dims_constant() {value=dims[n*n*n*n*n*n]}; y: f32[n*n*n*n*n*n*n] = tile(a, s); "
        "output y }",
        "graph { input a: f32[n]; const b: i64[1] = [3]; const e: i64[1] = [1000]; y: f32[n-3] = slice(a, b, e); "
        "output y }"}) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok()) << text << g.error().text();
    ASSERT_TRUE(g->sort().ok());
    const auto region = RegionTemplate::create(std::move(*g));
    for (const int64_t n : {2, 1, 1000000, 5, 0})
      for (const int64_t other : {2, 1, 3, 0})
        compare(region.get(), {{"n", n}, {"m", other}, {"k", 2}, {"l", other + (n == 5)}});
  }
}

TEST(RegionTemplate, WhatTransformersAreMadeOfIsNotInferredAgain) {
  for (const char* text :
       {"graph { input x: f32[b,s,8]; input w: f32[8,4]; input c: f32[4]; input r: f32[b,s,4]; t: f32[b,s,4] = "
        "matmul(x, w); u: f32[b,s,4] = add(t, c); v: f32[b,s,4] = gelu(u); y: f32[b,s,4] = add(v, r); output y }",
        "graph { input q: f32[b,s,2,4]; input k: f32[b,s,2,4]; input v: f32[b,s,2,4]; input m: f32[b,1,1,s]; y: "
        "f32[b,s,2,4] = attention(q, k, v, m) {k_layout=\"bshd\", q_layout=\"bshd\", v_layout=\"bshd\", "
        "y_layout=\"bshd\"}; output y }",
        "graph { input x: f32[b,s,8]; input w: f32[8]; y: f32[b,s,8] = layer_normalization(x, w); output y }",
        "graph { input x: f32[100,8]; input i: i64[b,s]; y: f32[b,s,8] = gather(x, i); output y }"}) {
    const auto region = RegionTemplate::create(ir::parse_graph(text).value());
    EXPECT_EQ(region->inferred_at_each_size(), 0u) << text;
  }
}

TEST(RegionTemplate, ThreadsBindAtOnce) {
  const auto region = RegionTemplate::create(
      ir::parse_graph("graph { input x: f32[n,4]; const c: f32[4] = [1.0,2.0,3.0,4.0]; t: f32[n,4] = add(x, c); "
                      "y: f32[n,4] = softmax(t); output y }")
          .value());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t k = 0; k < 200; ++k) {
        const int64_t n = 1 + (k * 7 + t) % 13;
        const auto bound = region->bind({{"n", n}});
        for (const auto& v : bound->graph().values()) wrong += v->type.rank() == 2 && !(*v->type.shape)[0].is_const(n);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace peri::exec
