// A model whose values take the slow reference too long is not run by the judge: the build is told so at once.
#include <gtest/gtest.h>

#include "build/open.hpp"
#include "device/memory_info.hpp"
#include "judge/engine.hpp"
#include "judge/whole.hpp"

namespace peri::build {
namespace {

Result<judge::EngineVerdict> verdict_of(const std::string& graph, const char* provider = "reference") {
  compile::Options options;
  options.model = "wide";
  options.tune.measure = options.tune.verify = false;
  options.tune.provider = provider;
  compile::Imported imported;
  PERI_ASSIGN(imported.graph, ir::parse_graph(graph));
  PERI_TRY(imported.graph.sort());
  PERI_TRY(ops::infer_graph(imported.graph));
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(options, std::move(imported)));
  PERI_ASSIGN(compile::Compiled compiled, compilation->lower());
  PERI_ASSIGN(const auto engine, assemble(&compiled, run_options(1)));
  return judge::judge_engine(engine, compilation->imported(), compilation->graph(), {compilation->tuned_for()});
}

Result<judge::EngineVerdict> verdict(const std::string& elements) {
  return verdict_of("graph { input x: f32[1]; const s: i64[1] = [" + elements +
                    "]; const k: i64[1] = [0]; e = expand(x, s); y = reduce_sum(e, k); output y }");
}

TEST(SlowRuns, AreNotBegunAndToldSo) {
  const auto large = verdict("600000000");
  ASSERT_TRUE(large.ok()) << large.error().text();
  EXPECT_TRUE(large->sizes.empty());
  EXPECT_NE(large->incomplete.find("not run at its fixed size: the reference computes 6e+08 elements in one run"),
            std::string::npos)
      << large->incomplete;
  const auto small = verdict("1000");
  ASSERT_TRUE(small.ok()) << small.error().text();
  EXPECT_EQ(small->sizes.size(), 1u);
  EXPECT_TRUE(small->right());
  EXPECT_EQ(small->incomplete, "");
}

// That it has no memory is what counts, also where it would take too long.
TEST(SlowRuns, ALackOfMemoryIsToldFirst) {
  const auto huge = verdict_of(
      "graph { input x: f32[1]; const s: i64[2] = [1000000, 1000]; const t: i64[2] = [1000, 1000000]; "
      "const k: i64[2] = [0, 1]; a = expand(x, s); b = expand(x, t); m = matmul(a, b); y = reduce_sum(m, k); output y "
      "}");
  ASSERT_TRUE(huge.ok()) << huge.error().text();
  ASSERT_EQ(huge->sizes.size(), 1u) << huge->incomplete;
  EXPECT_TRUE(huge->sizes[0].no_memory);
  EXPECT_NE(huge->sizes[0].limit.find("GiB of memory"), std::string::npos) << huge->sizes[0].limit;
}

// What a run has memory for, and its judge has not, is not begun by the judge: it would take the machine's.
TEST(SlowRuns, AJudgeThatHasNoMemoryDoesNotBegin) {
  const int64_t elements = device::host_memory().available_bytes / 40;  // a run takes a fifth
  const auto large = verdict_of(
      format("graph { input x: f32[%lld]; y = relu(x); output y }", static_cast<long long>(elements)), "peri");
  ASSERT_TRUE(large.ok()) << large.error().text();
  EXPECT_TRUE(large->sizes.empty());
  EXPECT_FALSE(large->lasting);
  EXPECT_NE(large->incomplete.find("not run at its fixed size: to judge it takes "), std::string::npos)
      << large->incomplete;
}

TEST(SlowRuns, ElementsOfAllValuesAreCounted) {
  auto graph = ir::parse_graph("graph { input x: f32[n,3]; a = relu(x); b = concat(a, a) {axis=0}; output b }");
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_TRUE(graph->sort().ok());
  ASSERT_TRUE(ops::infer_graph(*graph).ok());
  EXPECT_EQ(judge::elements_at(*graph, {{"n", 5}}), 45);
}

}  // namespace
}  // namespace peri::build
