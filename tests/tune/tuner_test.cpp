// What was measured is found again, for models between whose steps as much passes through the caches.
#include "tune/tuner.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "kernels/cpu/task_instance.hpp"
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
    EXPECT_EQ(tuner.stats().other_dims, 2);
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

// y = x w, with one element wrong in large results, which positions do not see.
Result<std::vector<kernels::Offer>> offer_product(const kernels::Problem& p, const device::Target& target) {
  if (p.graph->nodes.size() != 1 || p.graph->nodes[0]->op != "matmul" || p.graph->inputs.size() != 2 || p.constant[0] ||
      p.constant[1])
    return refused("not a product of arguments");
  for (const ir::Value* v : p.graph->inputs)
    if (v->type.dtype != DType::kF32 || v->type.rank() != 2) return refused("not of f32 matrices");
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
enum Fault { kRight, kWrong, kWrongInASetting, kThrows };
template <Fault kFault>
Result<std::unique_ptr<kernels::Instance>> make_product(const kernels::Problem& p, std::string_view config,
                                                        const kernels::InstantiateContext&) {
  const std::vector<int64_t> a = kernels::dims_of(*p.graph->inputs[0]), b = kernels::dims_of(*p.graph->inputs[1]);
  const bool large = a[0] >= 200, set = config.find("tile=") != std::string_view::npos;
  PERI_CHECK(kFault != kThrows || !large, "planted");
  const bool wrong = large && (kFault == kWrong || (kFault == kWrongInASetting && set));
  return kernels::TaskInstance::make(1, 0, [m = a[0], k = a[1], n = b[1], wrong](int64_t, const kernels::Args& args) {
    const float *x = static_cast<const float*>(args.in[0]), *w = static_cast<const float*>(args.in[1]);
    float* y = static_cast<float*>(args.out[0]);
    for (int64_t i = 0; i < m; ++i) {
      std::fill_n(y + i * n, n, 0.0f);
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j) y[i * n + j] += x[i * k + l] * w[l * n + j];
    }
    if (wrong) y[m * n / 2 + 3] += 1;
  });
}

TEST(Tuner, AnAnswerThatWasTriedAloneIsHeldAgainstAnotherProvidersOnceThatIsAsked) {
  const Folder folder;
  const kernels::Kernel good{"good", 1, "one", "cpu", "products", offer_product, make_product<kRight>},
      faulty{"faulty", 1, "two", "cpu", "products", offer_product, make_product<kWrong>};
  const kernels::AddedKernel add_good(good), add_faulty(faulty);
  auto graph = ir::parse_graph("graph { input x: f32[200,400]; input w: f32[400,300]; y = matmul(x, w); output y }");
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  Options options;
  options.cache_path = folder.path;
  options.budget_ms = 1;
  const kernels::Kernel* both[] = {&faulty, &good};
  for (const kernels::Kernel* one : both) {
    Tuner tuner(options);
    const Candidates& alone = tuner.candidates(*graph, {false, false}, {}, {&one, 1});
    ASSERT_EQ(alone.list.size(), 1u);
    EXPECT_EQ(alone.list[0].evidence.rejected, "") << "the positions do not see it";
    EXPECT_GT(alone.list[0].evidence.positions, 0);
  }
  for (const bool again : {false, true}) {
    Tuner tuner(options);
    const Candidates& all = tuner.candidates(*graph, {false, false}, {}, both);
    ASSERT_EQ(all.list.size(), 2u);
    EXPECT_EQ(all.list[0].kernel, &good);
    EXPECT_NE(all.list[1].evidence.rejected.find("differs at 30003"), std::string::npos)
        << all.list[1].evidence.rejected;
    EXPECT_EQ(tuner.stats().from_cache, again ? 2 : 0);
  }
}

constexpr std::string_view kLarge =
    "graph { input x: f32[200,400]; input w: f32[400,300]; y = matmul(x, w); output y }";

// The candidates of these kernels for a large product, by id.
std::map<std::string, Evidence> evidence_of(std::vector<const kernels::Kernel*> list, int settings) {
  std::vector<std::unique_ptr<kernels::AddedKernel>> added;
  for (const kernels::Kernel* k : list) added.push_back(std::make_unique<kernels::AddedKernel>(*k));
  auto graph = ir::parse_graph(kLarge);
  EXPECT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  Options options;
  options.budget_ms = 1;
  options.settings = settings;
  Tuner tuner(options);
  std::map<std::string, Evidence> out;
  for (const Candidate& c : tuner.candidates(*graph, {false, false}, {}, list).list) out[c.id()] = c.evidence;
  return out;
}
const kernels::Kernel kTurned = [] {
  kernels::Kernel k{"turned", 1, "one", "cpu", "products", offer_product, make_product<kWrongInASetting>};
  k.tunables = {{"tile", "planted", {1, 2}}};
  return k;
}();
const kernels::Kernel kSecond{"second", 1, "two", "cpu", "products", offer_product, make_product<kRight>};

TEST(Tuner, ASettingIsHeldAgainstAWholeAnswer) {
  for (const auto& list : {std::vector{&kTurned}, std::vector{&kTurned, &kSecond}}) {
    std::map<std::string, Evidence> all = evidence_of(list, 2);
    int64_t settings = 0;
    for (const auto& [id, e] : all) {
      const bool set = id.find("tile=") != std::string::npos;
      settings += set;
      EXPECT_EQ(!e.right(), set) << id << ": " << e.rejected;
      if (set) EXPECT_NE(e.rejected.find("a setting changes bits"), std::string::npos) << e.rejected;
      if (!set) EXPECT_NE(e.compared_with, id);
    }
    // Where the other kernel is the faster one, there is nothing to set.
    EXPECT_TRUE(settings == 2 || (settings == 0 && list.size() == 2));
  }
}

// Refuses what needs too much workspace.
Result<kernels::Needs> much_workspace(const kernels::Problem&, std::string_view, const device::Target&) {
  return kernels::Needs{size_t{3} << 20, 0, {1}, {}};
}

TEST(Tuner, AnOfferThatNeedsMoreMemoryThanARunMayHaveIsRefusedBeforeItIsMade) {
  const kernels::Kernel greedy = [] {
    kernels::Kernel k{"greedy", 1, "one", "cpu", "products", offer_product, make_product<kRight>};
    k.needs = much_workspace;
    return k;
  }();
  const kernels::AddedKernel added(greedy);
  auto graph = ir::parse_graph(kLarge);
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  for (const int64_t limit : {int64_t{2} << 20, int64_t{4} << 20}) {
    Options options;
    options.measure = options.verify = false;
    options.memory_bytes = limit;
    Tuner tuner(options);
    const kernels::Kernel* only[] = {&greedy};
    const Candidates& all = tuner.candidates(*graph, {false, false}, {}, only);
    const bool fits = limit > int64_t{3} << 20;
    ASSERT_EQ(all.list.size(), fits ? 1u : 0u);
    if (fits) EXPECT_EQ(all.list[0].workspace_bytes(), int64_t{3} << 20);
    const auto why = std::find_if(all.refusals.begin(), all.refusals.end(),
                                  [](const Refusal& r) { return r.kernel == "greedy@1 {}"; });
    ASSERT_EQ(why == all.refusals.end(), fits);
    if (!fits) EXPECT_EQ(why->reason, "a run of it needs more than 2.0 MiB: 1 task; 3.0 MiB of workspace");
  }
}

Result<kernels::Needs> a_pebibyte(const kernels::Problem&, std::string_view, const device::Target&) {
  return kernels::Needs{size_t{1} << 50, 0, {1}, {}};
}

// What a GPU has is not what the host has: its offers are held to a limit that was given only.
TEST(Tuner, AGpusOffersAreNotHeldToTheHostsMemory) {
  auto graph = ir::parse_graph(kLarge);
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  struct Try {
    const char* executor;
    int64_t limit;
    size_t kept;
  };
  for (const Try& t : {Try{"cpu", 0, 0}, {"cuda", 0, 1}, {"cuda", 4 << 20, 0}}) {
    kernels::Kernel k{"greedy", 1, "one", t.executor, "products", offer_product, make_product<kRight>};
    k.needs = a_pebibyte;
    const kernels::AddedKernel added(k);
    Options options;
    options.measure = options.verify = false;
    options.memory_bytes = t.limit;
    if (k.executor != "cpu") options.own_executor = k.executor;
    Tuner tuner(options);
    const kernels::Kernel* only[] = {&k};
    EXPECT_EQ(tuner.candidates(*graph, {false, false}, {}, only).list.size(), t.kept) << t.executor << t.limit;
  }
}

TEST(Tuner, WhatComesAfterACandidateThatFailedIsHeldAgainstAWholeAnswerToo) {
  const kernels::Kernel first{"first", 1, "one", "cpu", "products", offer_product, make_product<kRight>},
      throws{"throws", 1, "one", "cpu", "products", offer_product, make_product<kThrows>},
      faulty{"faulty", 1, "one", "cpu", "products", offer_product, make_product<kWrong>};
  std::map<std::string, Evidence> all = evidence_of({&first, &kSecond, &throws, &faulty}, 0);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_NE(all["throws@1 {}"].rejected.find("planted"), std::string::npos) << all["throws@1 {}"].rejected;
  EXPECT_NE(all["faulty@1 {}"].rejected.find("differs at 30003"), std::string::npos) << all["faulty@1 {}"].rejected;
  EXPECT_EQ(all["first@1 {}"].compared_with, "second@1 {}");
  EXPECT_EQ(all["second@1 {}"].rejected, "");
}

TEST(Tuner, AVisitMoreIsKept) {
  const Folder folder;
  Result<ir::Graph> graph = ir::parse_graph(kProduct);
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  Options options;
  options.cache_path = folder.path;
  options.budget_ms = 1;
  const std::vector<bool> constant = {false, true};
  Tuner tuner(options);
  const Candidate first = tuner.candidates(*graph, constant).list[0];
  const Evidence more = tuner.time_again(*graph, constant, first);
  EXPECT_EQ(more.visits, first.evidence.visits + 1);
  EXPECT_LE(more.time_ms, first.evidence.time_ms);
  EXPECT_EQ(more.max_error, first.evidence.max_error);
  EXPECT_EQ(tuner.stats().again, 1);
  Tuner next(options);
  for (const Candidate& c : next.candidates(*graph, constant).list)
    if (c.id() == first.id() && c.offer.inputs == first.offer.inputs) EXPECT_EQ(c.evidence.visits, more.visits);
  // What all came from the cache is chosen from as it stands there, so that the choice stays what it is.
  const Candidate again = next.candidates(*graph, constant).list[0];
  EXPECT_EQ(next.stats().measured, 0);
  EXPECT_EQ(next.time_again(*graph, constant, again), again.evidence);
  EXPECT_EQ(next.stats().again, 0);
}

}  // namespace
}  // namespace peri::tune
