// What was measured is found again, for models between whose steps as much passes through the caches.
#include "tune/tuner.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ops/entry.hpp"

namespace peri::tune {
namespace {

constexpr std::string_view kProduct = "graph { input x: f32[7,24]; input w: f32[24,40]; y = matmul(x, w); output y }";
constexpr std::string_view kRelu = "graph { input x: f32[7,24]; y = relu(x); output y }";

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / ("peri_tuner_" + std::to_string(getpid()))).string();
  ~Folder() { std::filesystem::remove_all(path); }
};

Tuner::Stats stats_of(std::string_view text, const std::string& cache, double model_bytes) {
  Result<ir::Graph> graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  Options options;
  options.cache_path = cache;
  options.budget_ms = 1;
  Tuner tuner(options);
  tuner.set_model_bytes(model_bytes);
  std::vector<bool> constant;
  for (const ir::Value* v : graph->inputs) constant.push_back(v->name == "w");
  EXPECT_FALSE(tuner.candidates(*graph, constant).list.empty());
  return tuner.stats();
}

TEST(Tuner, TimesHoldForModelsOfAboutTheirSize) {
  const Folder folder;
  const int64_t candidates = stats_of(kProduct, folder.path, 1e6).measured;
  ASSERT_GT(candidates, 0);
  EXPECT_EQ(stats_of(kProduct, folder.path, 9e5).from_cache, candidates);  // the same power of two
  EXPECT_EQ(stats_of(kProduct, folder.path, 1e9).from_cache, 0);
  EXPECT_EQ(stats_of(kProduct, folder.path, 1e12).from_cache, candidates);  // more than any cache holds
}

TEST(Tuner, OnlyTheKernelsThatMatterAreTriedUnlessAllWere) {
  Result<ir::Graph> graph = ir::parse_graph(kProduct);
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  Options options;
  options.budget_ms = 1;
  Tuner tuner(options);
  const std::vector<bool> constant = {false, true};
  const size_t offered = tuner.offers(*graph, constant).list.size();
  const kernels::Kernel* one = tuner.offers(*graph, constant).list[0].kernel;
  EXPECT_EQ(tuner.stats().measured, 0);
  const Candidates& few = tuner.candidates(*graph, constant, {}, {&one, 1});
  ASSERT_FALSE(few.list.empty());
  EXPECT_LT(few.list.size(), offered);
  for (const Candidate& c : few.list) {
    EXPECT_EQ(c.kernel, one);
    EXPECT_GE(c.evidence.time_ms, 0);
  }
  EXPECT_EQ(tuner.candidates(*graph, constant).list.size(), offered);
  const int64_t measured = tuner.stats().measured;
  EXPECT_EQ(tuner.candidates(*graph, constant, {}, {&one, 1}).list.size(), offered) << "what is known";
  EXPECT_EQ(tuner.stats().measured, measured);
}

TEST(Tuner, CandidatesAreJudgedAtOtherDimsTooAndThatIsKept) {
  const Folder folder;
  auto symbolic = ir::parse_graph("graph { input x: f32[n,24]; input r: f32[n,24]; y = add(x, r); output y }");
  ASSERT_TRUE(symbolic.ok() && ops::infer_graph(*symbolic).ok());
  const DimBinding sizes[] = {{{"n", 7}}, {{"n", 3}}, {{"n", 300}}};
  const std::vector<ir::Graph> there = bound_at(*symbolic, sizes);
  ASSERT_EQ(there.size(), 3u);
  for (const bool kept : {false, true}) {
    Options options;
    options.cache_path = folder.path;
    options.budget_ms = 1;
    Tuner tuner(options);
    const Candidates& alone = tuner.candidates(there[0], {false, false});
    ASSERT_FALSE(alone.list.empty());
    EXPECT_EQ(alone.list[0].evidence.shapes, 1);
    const int64_t measured = tuner.stats().measured;
    const Candidates& all = tuner.candidates(there[0], {false, false}, there);  // its own dims among them
    EXPECT_EQ(tuner.stats().measured, measured) << "times are shared";
    EXPECT_EQ(tuner.stats().elsewhere, 2);
    for (const Candidate& c : all.list) {
      EXPECT_EQ(c.evidence.rejected, "");
      EXPECT_EQ(c.evidence.shapes, 3);
      EXPECT_GT(c.evidence.runs, 0) << "what was run is kept";
      EXPECT_TRUE(tuner.offered(c, there[1], {false, false}));
    }
    EXPECT_EQ(kept ? tuner.stats().runs : 0, 0) << "everything came from the cache";
  }
}

TEST(Tuner, TimesWithoutWeightsHoldForEveryModel) {
  const Folder folder;
  const int64_t candidates = stats_of(kRelu, folder.path, 1e6).measured;
  ASSERT_GT(candidates, 0);
  EXPECT_EQ(stats_of(kRelu, folder.path, 1e9).from_cache, candidates);
}

}  // namespace
}  // namespace peri::tune
