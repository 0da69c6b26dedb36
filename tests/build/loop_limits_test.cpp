// A loop that reaches a limit on inputs that are made up says nothing about others: the build is told why the engine
// was not run, and no more, whether iterations or memory ended it.
#include <gtest/gtest.h>

#include "build/open.hpp"
#include "judge/engine.hpp"

namespace peri::build {
namespace {

// x beside itself, that beside itself, ..., 60 times.
constexpr const char* kDoubling =
    "graph { input x: f32[n]; const t: i64[] = [60]; y = loop(t, _, x) {carried=1, body=graph { input i: i64[]; input "
    "g: bool[]; input v: f32[n]; w = concat(v, v) {axis=0}; output g; output w }}; output y }";

Result<judge::EngineVerdict> verdict(int64_t max_iterations, int64_t memory_bytes) {
  compile::Options options;
  options.model = "doubling";
  options.tune.measure = options.tune.verify = false;
  compile::Imported imported;
  PERI_ASSIGN(imported.graph, ir::parse_graph(kDoubling));
  PERI_TRY(imported.graph.sort());
  PERI_TRY(ops::infer_graph(imported.graph));
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(options, std::move(imported)));
  PERI_ASSIGN(compile::Compiled compiled, compilation->lower());
  runtime::EngineOptions engines = run_options(1);
  engines.max_iterations = max_iterations;
  engines.memory_bytes = memory_bytes;
  PERI_ASSIGN(const auto engine, assemble(&compiled, std::move(engines)));
  return judge::judge_engine(engine, compilation->imported(), compilation->graph(), {compilation->tuned_for()});
}

TEST(LoopLimits, AreToldAlike) {
  constexpr int64_t kMany = int64_t{1} << 31, kLittle = 1 << 20;
  for (const auto& [most, bytes, words] : {std::tuple{int64_t{10}, int64_t{0}, "did not end within its limit"},
                                           {kMany, kLittle, "grow beyond the memory"}}) {
    const auto v = verdict(most, bytes);
    ASSERT_TRUE(v.ok()) << v.error().text();
    ASSERT_FALSE(v->sizes.empty());
    EXPECT_TRUE(v->right()) << words;
    for (const judge::SizeEvidence& e : v->sizes) {
      EXPECT_NE(e.limit.find(words), std::string::npos) << e.limit;
      EXPECT_FALSE(e.no_memory) << "the machine has enough for what is known before the run: " << words;
    }
  }
}

}  // namespace
}  // namespace peri::build
