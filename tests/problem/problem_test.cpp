// A problem's text parses back to the very problem, as a line where it is an anchor with its epilogue, and its hash is
// the same: on written ones, on every sample, on chains of random steps, and on random regions.
#include "problem/problem.hpp"

#include <gtest/gtest.h>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "ops/entry.hpp"

namespace peri::problem {
namespace {

// Parses, and holds what text() and hash() say of it against a second reading.
Problem stable(const std::string& given) {
  auto p = parse(given);
  EXPECT_TRUE(p.ok()) << given << "\n" << p.error().text();
  if (!p.ok()) return {};
  const std::string said = text(*p);
  auto again = parse(said);
  EXPECT_TRUE(again.ok()) << said << "\n" << again.error().text();
  if (!again.ok()) return {};
  EXPECT_EQ(text(*again), said);
  EXPECT_EQ(hash(*again), hash(*p)) << said;
  EXPECT_EQ(again->weights, p->weights) << said;
  EXPECT_TRUE(ir::equal(again->graph, p->graph)) << said;
  return std::move(*p);
}

TEST(Problem, AnAnchorWithItsEpilogueIsOneLine) {
  for (const char* line : {
           "conv x=f32[8,64,56,56] w=f32[64,64,3,3] pads=1,1,1,1 +bias +relu",
           "conv x=f32[1,64,56,56] w=f32[256,64,1,1] bias=f32[256] +add +relu",
           "matmul a=f32[64,256] b=f32[256,128] +bias +gelu{approximate=\"tanh\"}",
           "matmul a=f32[64,256] b=f32[256,128] weights=none",
           "matmul a=f32[64,256] b=f32[256,128] +add(^,f32[128])",
           "matmul a=f32[64,256] b=f32[256,128] +mul(^,f32[128]) weights=x1,x2",
           "gemm a=f32[5,7] b=f32[9,7] transB=1 +leaky_relu{alpha=0.1} +mul(f32[]:[0.5],^)",
           "softmax x=f32[2,4,9,9] axis=-1",
           "add a=f32[3,4] b=f32[4] +sigmoid +mul(t2,^)",
           "layer_normalization x=f16[2,9] scale=f16[9] bias=f16[9] axis=-1",
           "average_pool x=f32[1,3,9,9] kernel_shape=3,3",
           "clip x=f32[4] min=f32[]:[0.0] max=f32[]:[6.0]",
           "matmul a=f32[8,8] b=f32[8,8] +add(^,x0)",
           "conv x=f32[batch,64,2*height,7] w=f32[64,64,3,3] +relu",
       }) {
    const Problem p = stable(line);
    EXPECT_EQ(text(p), line);
    EXPECT_EQ(name(p), line);
  }
}

TEST(Problem, WeightsAreWhatTheOpsSayAndWhatIsWritten) {
  EXPECT_EQ(stable("conv x=f32[1,4,5,5] w=f32[4,4,3,3] +bias +add").weights,
            (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(stable("conv x=f32[1,4,5,5] w=f32[4,4,3,3] +add weights=x2").weights,
            (std::vector<bool>{false, false, true}));
  EXPECT_EQ(stable("graph { input x: f32[2,3]; input w: f32[3,4]; y = matmul(x, w); output y }").weights,
            (std::vector<bool>{false, true}));
  EXPECT_EQ(stable("region graph { input x: f32[2,3]; input w: f32[3,4]; y = matmul(x, w); output y }").weights,
            (std::vector<bool>{false, false}));
}

TEST(Problem, WhatNoLineSaysIsARegionWithItsGraph) {
  const Problem two = stable(
      "region weights=x1 graph { input x0: f32[2,3]; input x1: f32[3,4]; t2 = matmul(x0, x1); t3 = relu(t2); "
      "output t2; output t3 }");
  EXPECT_TRUE(text(two).starts_with("region weights=x1 graph {")) << text(two);
  EXPECT_EQ(name(two), "region @" + hash(two));
  const Problem known =
      stable("region known=x1:[2,3] graph { input x0: f32[6]; input x1: i64[2]; t2 = reshape(x0, x1); output t2 }");
  EXPECT_EQ(known.graph.outputs[0]->type, *ir::parse_type("f32[2,3]")) << "what is known of a shape gives its result";
  std::string many = "0";
  for (int k = 1; k < 200; ++k) many += "," + std::to_string(k);
  EXPECT_EQ(stable("region known=x0:[" + many + "] graph { input x0: i64[200]; t1 = relu(x0); output t1 }")
                .graph.inputs[0]
                ->content->size(),
            200u);
  const Problem moved =
      stable("region graph { input x0: f32[1,8,4,4]; t1: f32[1,8,4,4]@0231 = relayout(x0); output t1 }");
  EXPECT_EQ(moved.graph.outputs[0]->type.layout, ir::nhwc());
}

TEST(Problem, ItsHashIsOfAllOfItAndWithoutWeightsOfTheRegion) {
  const std::string line = "matmul a=f32[64,256] b=f32[256,128] +relu";
  const Problem p = stable(line), bare = stable(line + " weights=none");
  EXPECT_NE(hash(p), hash(bare));
  EXPECT_NE(hash(p), hash(stable("matmul a=f32[64,256] b=f32[256,129] +relu")));
  EXPECT_EQ(hash(bare), hash(p.graph));
  EXPECT_EQ(hash(p.graph), hex64(hash_text(ir::print(p.graph, {1024, false})))) << "as locks have named regions";
}

TEST(Problem, NamesDoNotMatterOnceItIsCanonical) {
  const Problem a = stable(
      "region graph \"net\" { input left: f32[2,3]; const k: f32[] = [2]; q = mul(left, k) \"n\"; "
      "r = relu(q); output r as \"out\" }");
  EXPECT_EQ(text(canonical(a.graph), a.weights), "mul a=f32[2,3] b=f32[]:[2.0] +relu");
}

TEST(Problem, WhatIsNoProblemSaysWhy) {
  for (const auto& [given, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "an empty problem"},
           {"no_such_op x=f32[2]", "no op"},
           {"relu x=f32[2] colour=3", "not understood"},
           {"relu x=f32[2] +add(^", "not closed"},
           {"relu x=f32[2] +add(^,t9)", "no value 't9'"},
           {"matmul b=f32[2,2] a=f32[2,2]", "out of order"},
           {"relu x=f32[2] weights=x7", "no input 'x7'"},
           {"relu x=f32[2] sums=f16", "not understood"},
           {"conv x=f32[1,3,5,5] w=f32[4,2,3,3]", "the channels of x"},
           {"region weights=x0", "without its graph"},
           {"region colour=3 graph { input x0: f32[2]; t1 = relu(x0); output t1 }", "not understood"},
           {"region graph { input x0: f32[2]; t1: f32[3] = relu(x0); output t1 }", "type it states"},
           {"region graph { input x0: f32[2]; t1: f32[3] = relu(x0); t2: f32[2] = neg(t1); output t2 }",
            "'t1' does not have the type it states"},
           {"region graph { input x0: f32[14]; t1: f32[1,8,4,4]@0231 = relayout(x0);}", "type it states"},
       }) {
    const auto p = parse(given);
    ASSERT_FALSE(p.ok()) << given;
    EXPECT_NE(p.error().text().find(why), std::string::npos) << given << "\n" << p.error().text();
  }
}

// Samples, all of their own names; those of one node are lines.
TEST(Problem, EverySampleOfEveryOpIsStable) {
  int64_t lines = 0, all = 0;
  for (const ops::OpDef* op : ops::all())
    for (const std::string_view sample : op->samples) {
      auto g = ir::parse_graph(sample);
      if (!g.ok() || !ops::infer_graph(*g).ok()) continue;
      const ir::Graph c = canonical(*g);
      for (const auto& weights : {weights_by_role(c), std::vector<bool>(c.inputs.size(), true)}) {
        const std::string said = text(c, weights);
        const Problem p = stable(said);
        EXPECT_EQ(hash(p), hash(c, weights)) << said;
        lines += !said.starts_with("region ");
        ++all;
      }
    }
  EXPECT_GT(all, 300);
  EXPECT_GT(lines * 2, all);
}

// Anchors with steps behind them that read what stands before in every way.
Problem random_chain(Rng& rng) {
  static constexpr std::string_view kAnchors[] = {"conv x=f32[1,6,5,5] w=f32[6,6,3,3] pads=1,1,1,1",
                                                  "matmul a=f32[4,6] b=f32[6,6]", "add a=f32[4,6] b=f32[6]",
                                                  "softmax x=f32[3,5] axis=-1", "gemm a=f32[4,6] b=f32[6,6] c=f32[6]"};
  Problem p = *parse(kAnchors[rng.below(std::size(kAnchors))]);
  ir::Graph& g = p.graph;
  std::vector<ir::Value*> full = {g.nodes[0]->out()};
  for (int64_t k = rng.below(7); k > 0; --k) {
    ir::Value* last = g.nodes.back()->out();
    ir::Value* any = full[static_cast<size_t>(rng.below(static_cast<int64_t>(full.size())))];
    const auto input = [&](const ir::Type& t) {
      p.weights.push_back(rng.below(2) == 0);
      return g.add_input("in", t);
    };
    const float number = static_cast<float>(rng.normal());
    switch (rng.below(8)) {
      case 0: g.add("relu", {last}); break;
      case 1: g.add("leaky_relu", {last}, {{"alpha", rng.normal()}}); break;
      case 2: g.add("add", {last, any}); break;
      case 3: g.add("mul", {any, last}); break;
      case 4: full.push_back(input(last->type)), g.add("sub", {last, full.back()}); break;
      case 5: g.add("add", {last, input({DType::kF32, Shape{(*last->type.shape).back()}})}); break;
      case 6: g.add("max", {last, g.add_constant("k", Tensor::of_f32({}, {&number, 1}))}); break;
      default: full.push_back(last), g.add("sigmoid", {last}); break;
    }
    EXPECT_TRUE(ops::infer_graph(g).ok());
  }
  g.outputs.clear();
  g.output_names.clear();
  g.mark_output(g.nodes.back()->out(), "y");
  if (rng.below(3) == 0) g.mark_output(g.nodes.front()->out(), "first");
  return p;
}

TEST(Problem, RandomChainsAreStable) {
  int64_t lines = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const Problem chain = random_chain(rng);
    const Problem named = stable(text(chain)), p{canonical(chain.graph), chain.weights};
    EXPECT_EQ(hash(named), hash(chain)) << "names of its own too";
    EXPECT_EQ(hash(stable(text(p))), hash(p));
    lines += !text(p).starts_with("region ");
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(lines, 1000);
}

// Damaged texts are refused or are problems themselves, with a text that is stable.
TEST(Problem, DamagedTextsEndInAnErrorOrInAProblem) {
  static constexpr std::string_view kTexts[] = {
      "conv x=f32[8,64,56,56] w=f32[64,64,3,3] pads=1,1,1,1 +bias +add +relu weights=x1",
      "gemm a=f32[5,7] b=f32[9,7] transB=1 +leaky_relu{alpha=0.1} +mul(f32[]:[0.5],^) +clip(^,f32[]:[0.0])",
      "attention q=f32[1,2,4,8] k=f32[1,2,4,8] v=f32[1,2,4,8] scale=0.5",
      "region weights=x1 known=x2:[2,n] graph { input x0: f32[2,3]; input x1: f32[3,4]; input x2: i64[2]; "
      "t3 = matmul(x0, x1); t4 = relu(t3); output t3; output t4 }"};
  static constexpr std::string_view kBytes = "+=^_()[]{}:,.\"\\ x0t19fnanbias-";
  int64_t problems = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Rng rng(seed);
    std::string given(kTexts[rng.below(std::size(kTexts))]);
    for (int64_t k = 1 + rng.below(3); k > 0; --k) {
      const auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(given.size())));
      const char byte = kBytes[static_cast<size_t>(rng.below(static_cast<int64_t>(kBytes.size())))];
      switch (rng.below(3)) {
        case 0: given[at] = byte; break;
        case 1: given.insert(at, 1, byte); break;
        default: given.erase(at, 1 + static_cast<size_t>(rng.below(4))); break;
      }
    }
    const auto p = parse(given);
    if (!p.ok()) {
      EXPECT_FALSE(p.error().message.empty()) << given;
      continue;
    }
    ++problems;
    SCOPED_TRACE(given);
    (void)stable(text(*p));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(problems, 200);
  EXPECT_LT(problems, 19000);
}

}  // namespace
}  // namespace peri::problem
