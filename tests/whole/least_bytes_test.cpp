// The least memory that every cover takes: never more than the plan of the one that is chosen, told before anything is
// tried, and refused by who asks.
#include "lower/least_bytes.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/backend.hpp"
#include "lower/lower.hpp"
#include "ops/entry.hpp"
#include "passes/pipeline.hpp"
#include "plan/memory.hpp"

namespace peri::lower {
namespace {

constexpr double kFloat = 4;

struct Found {
  double least = -1;    // as it was told
  double planned = -1;  // the arena of the program, its inputs and outputs
};

Result<Found> lowered(const ir::Graph& given, const DimBinding& dims, bool refuses = false) {
  Found out;
  tune::Options o;
  o.measure = o.verify = false;
  tune::Tuner tuner(o);
  Options options;
  options.tuned_for = dims;
  options.affords = [&](const DimBinding& sizes, double bytes) -> Status {
    EXPECT_EQ(sizes, dims);
    EXPECT_LT(out.least, 0) << "it is told once, of the whole";
    out.least = bytes;
    return refuses ? Status(Error(ErrorKind::kMemory, "too much")) : Status(Ok{});
  };
  PERI_ASSIGN(const Lowered made, lower_graph(given, backends::cpu::backend(), tuner, options));
  PERI_ASSIGN(const plan::ArenaPlan arena, plan::plan_arena(made.program, dims));
  out.planned = static_cast<double>(arena.arena_bytes);
  for (size_t k = 0; k < made.program.buffers.size(); ++k) {
    const plan::BufferKind kind = made.program.buffers[k].kind;
    if (kind == plan::BufferKind::kInput || kind == plan::BufferKind::kOutput)
      out.planned += static_cast<double>(arena.bytes[k]);
  }
  return out;
}

ir::Graph parsed(std::string_view text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << g.error().text();
  const Status inferred = ops::infer_graph(*g);
  EXPECT_TRUE(inferred.ok()) << inferred.error().text();
  EXPECT_TRUE(passes::run_pipeline(*g, {}).ok());
  return std::move(*g);
}

TEST(LeastBytes, TheValueThatNoKernelAvoidsCounts) {
  const ir::Graph g = parsed(
      "graph { input x: f32[n,8,16,16]; input w: f32[64,8,3,3]; input v: f32[8,64,3,3]; a = conv(x, "
      "w){pads=[1,1,1,1]}; "
      "b = relu(a); y = conv(b, v){pads=[1,1,1,1]}; output y; }");
  const auto found = lowered(g, {{"n", 1000}});
  ASSERT_TRUE(found.ok()) << found.error().text();
  const double ports = kFloat * (2.0 * 1000 * 8 * 256 + 2 * 64 * 8 * 9);
  EXPECT_EQ(found->least, ports + kFloat * 1000 * 64 * 256);
  EXPECT_GE(found->planned, found->least);
}

TEST(LeastBytes, NoPlanTakesLess) {
  for (const char* const text : {
           "graph { input x: f32[n,64]; a = relu(x); b = sigmoid(a); y = flatten(b){axis=0}; output y; }",
           "graph { input x: f32[n,64]; input w: f32[64,256]; input v: f32[256,64]; a = matmul(x, w); b = relu(a); "
           "c = matmul(b, v); y = add(c, x); output y; output b; }",
           "graph { const k: i64[1] = [1]; input x: f32[n,64]; a = relu(x); b = neg(a); c = add(a, b); d = mul(c, a); "
           "y = reduce_sum(d, k); "
           "output y; }",
           "graph { const k: i64[1] = [1]; input x: f32[n,32]; a = concat(x, x, x){axis=1}; b = softmax(a); y = "
           "reduce_max(b, k); output y; }",
           "graph { input q: f32[n,4,64,16]; input k: f32[n,4,16,64]; input v: f32[n,4,64,16]; s = matmul(q, k); "
           "p = softmax(s); y = matmul(p, v); output y; }",
       }) {
    const ir::Graph g = parsed(text);
    for (const int64_t n : {1, 7, 300}) {
      const auto found = lowered(g, {{"n", n}});
      ASSERT_TRUE(found.ok()) << text << ": " << found.error().text();
      EXPECT_GT(found->least, 0) << text;
      EXPECT_LE(found->least, found->planned) << text << " at " << n;
    }
  }
}

TEST(LeastBytes, WhoAsksMayRefuse) {
  const ir::Graph g = parsed("graph { input x: f32[n,8]; y = softmax(x); output y; }");
  const auto refused = lowered(g, {{"n", 3}}, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory);
}

}  // namespace
}  // namespace peri::lower
