// A library's choices become candidates beside the heuristic one, asked for where candidates are tried: kept, checked
// against the offer, and no more than a refusal where the library refuses, crashes, hangs or answers nonsense.
#include "tune/resolved.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/tune/planted.hpp"
#include "tune/other_dims.hpp"
#include "tune/worker.hpp"

namespace peri::tune {
namespace {
namespace fs = std::filesystem;
using planted::Fault;

constexpr const char* kAction = "PLANTED_LIBRARY";  // what the library does, in this process and in a worker's

std::string action() {
  const char* const named = getenv(kAction);
  return named ? named : "";
}
int asked = 0;

Result<std::vector<kernels::Offer>> offer(const kernels::Problem& p, const device::Target& target) {
  PERI_ASSIGN(std::vector<kernels::Offer> out, planted::offer<Fault::kNone>(p, target));
  out[0].config = "form=1 heuristic";
  return out;
}

Result<std::vector<std::string>> resolve(const kernels::Problem&, std::string_view config, const device::Target&,
                                         device::Device*) {
  ++asked;
  EXPECT_EQ(config, "form=1 heuristic");
  const std::string what = action();
  if (what == "refuses") return refused("no algorithm for it");
  if (what == "crashes") raise(SIGSEGV);
  PERI_CHECK(what != "checks", "planted");
  while (what == "hangs") pause();
  if (what == "strange")
    return std::vector<std::string>{"algo=1 form=2", "form=1 algo=1 algo=2", "form=1 heuristic", "algo=4",
                                    "form=1 algo=3"};
  if (what == "nothing") return std::vector<std::string>{};
  return std::vector<std::string>{"form=1 algo=7 tile=2", "form=1 algo=8", "form=1 algo=7 tile=2"};
}

// algo=8 is wrong.
Result<std::unique_ptr<kernels::Instance>> make(const kernels::Problem& p, std::string_view config,
                                                const kernels::InstantiateContext& c) {
  PERI_ASSIGN(const int64_t algo, kernels::config_int(config, "algo", 1, 100, 0));
  return algo == 8 ? planted::make<Fault::kLastTile>(p, config, c) : planted::make<Fault::kNone>(p, config, c);
}

const kernels::Kernel& kernel() {
  static const kernels::Kernel kKernel = [] {
    kernels::Kernel k;
    k.name = "planted_library";
    k.provider = "one";
    k.takes = "products";
    k.offer = offer;
    k.instantiate = make;
    k.resolve = resolve;
    k.resolved = {"algo", "tile"};
    return k;
  }();
  return kKernel;
}

ir::Graph product(int64_t rows) {
  auto g = ir::parse_graph(format("graph { input x: f32[%lld,16]; input w: f32[16,24]; y = matmul(x, w); output y }",
                                  static_cast<long long>(rows)));
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  return std::move(*g);
}

// The worker's own process, started by the script of Resolving::worker().
TEST(DISABLED_ResolvingWorker, Serves) {
  const kernels::AddedKernel known(kernel());
  EXPECT_TRUE(serve(kWorkerSocket).ok());
}

class Resolving : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("peri_resolving_" + std::to_string(getpid()))).string();
    fs::create_directories(folder_);
    asked = 0;
  }
  void TearDown() override {
    unsetenv(kAction);
    fs::remove_all(folder_);
  }
  void library(const char* what) { setenv(kAction, what, 1); }

  // This very program as a worker: it has the planted kernel, and the same sources.
  std::string worker() {
    const std::string path = folder_ + "/worker";
    std::ofstream(path) << "#!/bin/sh\nexec '" << fs::read_symlink("/proc/self/exe").string()
                        << "' --gtest_filter=DISABLED_ResolvingWorker.Serves --gtest_also_run_disabled_tests "
                           ">/dev/null 2>&1\n";
    chmod(path.c_str(), 0700);
    return path;
  }
  Candidates candidates(const std::string& worker, bool measure = true, const std::string& cache = "") {
    Options options;
    options.worker = worker;
    options.budget_ms = 1;
    options.provider = "one";
    options.measure = measure;
    options.cache_path = cache;
    Tuner tuner(options);
    const Candidates all = tuner.candidates(product(20), {false, false});
    stats_ = tuner.stats();
    return all;
  }
  static const Candidate* find(const Candidates& all, const std::string& config) {
    for (const Candidate& c : all.list)
      if (c.offer.config == config) return &c;
    return nullptr;
  }
  static std::string refusals(const Candidates& all) {
    std::string out;
    for (const Refusal& r : all.refusals)
      if (r.kernel.starts_with("planted_library")) out += r.reason + "\n";
    return out;
  }
  const kernels::AddedKernel known_{kernel()};
  std::string folder_;
  Tuner::Stats stats_;
};

TEST_F(Resolving, ChoicesAreTriedBesideTheHeuristicOne) {
  const std::string cache = folder_ + "/cache";
  for (int build = 0; build < 2; ++build) {
    const Candidates all = candidates("", true, cache);
    ASSERT_EQ(all.list.size(), 3u);
    for (const char* right : {"form=1 heuristic", "form=1 algo=7 tile=2"}) {
      ASSERT_NE(find(all, right), nullptr);
      EXPECT_EQ(find(all, right)->evidence.rejected, "") << right;
      EXPECT_TRUE(find(all, right)->evidence.timed()) << right;
    }
    ASSERT_NE(find(all, "form=1 algo=8"), nullptr);
    EXPECT_NE(find(all, "form=1 algo=8")->evidence.rejected, "") << "what a library chose is judged as anything else";
    EXPECT_EQ(asked, 1) << "what it chose is kept";
  }
  EXPECT_EQ(stats_.from_cache, 3);
}

TEST_F(Resolving, NoLibraryIsAskedWhereNothingIsMeasured) {
  const Candidates all = candidates("", false);
  ASSERT_EQ(all.list.size(), 1u);
  EXPECT_EQ(all.list[0].offer.config, "form=1 heuristic");
  EXPECT_EQ(asked, 0);
}

TEST_F(Resolving, WhatFailsLeavesTheHeuristicOne) {
  for (const auto& [what, said] : {std::pair("refuses", "no algorithm for it"), {"checks", "internal check failed"}}) {
    library(what);
    const Candidates all = candidates("");
    ASSERT_EQ(all.list.size(), 1u) << what;
    EXPECT_EQ(all.list[0].offer.config, "form=1 heuristic");
    EXPECT_TRUE(all.list[0].evidence.right() && all.list[0].evidence.timed());
    EXPECT_NE(refusals(all).find(said), std::string::npos) << refusals(all);
  }
  library("nothing");
  EXPECT_EQ(candidates("").list.size(), 1u);
}

TEST_F(Resolving, ConfigurationsOfNoOfferAreRefused) {
  library("strange");
  const Candidates all = candidates("");
  ASSERT_EQ(all.list.size(), 2u);
  EXPECT_NE(find(all, "form=1 algo=3"), nullptr);
  for (const char* strange : {"{algo=1 form=2}", "{form=1 algo=1 algo=2}", "{form=1 heuristic}", "{algo=4}"})
    EXPECT_NE(refusals(all).find(std::string("found ") + strange), std::string::npos) << strange << refusals(all);
}

TEST_F(Resolving, TheWorkerIsAskedAndNotThisProcess) {
  const Candidates all = candidates(worker());
  EXPECT_EQ(stats_.worker_trouble, "");
  EXPECT_TRUE(stats_.worker);
  EXPECT_EQ(all.list.size(), 3u);
  EXPECT_EQ(asked, 0);
}

TEST_F(Resolving, ACrashIsARefusalAndKept) {
  const std::string cache = folder_ + "/cache";
  library("crashes");
  for (const int deaths : {1, 0}) {
    const Candidates all = candidates(worker(), true, cache);
    ASSERT_EQ(all.list.size(), 1u);
    EXPECT_TRUE(all.list[0].evidence.right() && all.list[0].evidence.timed());
    EXPECT_NE(refusals(all).find("the worker died of SIGSEGV"), std::string::npos) << refusals(all);
    EXPECT_EQ(stats_.worker_deaths, deaths);
    EXPECT_EQ(asked, 0);
  }
}

TEST_F(Resolving, AHangIsARefusalOfTheMoment) {
  library("hangs");
  auto remote = RemoteJudge::start(worker(), 1, 0.5);
  ASSERT_TRUE(remote.ok()) << remote.error().text();
  const ir::Graph g = product(20);
  const std::vector<bool> constant = {false, false};
  const Candidate c = {&kernel(), offer({&g, constant}, device::cpu_target(1))->front()};
  const auto told = (*remote)->resolve(g, constant, c);
  ASSERT_TRUE(told.ok()) << told.error().text();
  EXPECT_NE(told->failed.find("no answer"), std::string::npos) << told->failed;
  EXPECT_FALSE(told->lasting);
  EXPECT_EQ((*remote)->deaths(), 1);
}

TEST_F(Resolving, AChoiceStandsForItsOfferAtOtherSizes) {
  const ir::Graph here = product(20), there = product(5);
  const std::vector<bool> constant = {false, false};
  const device::Target target = device::cpu_target(1);
  Candidate c = {&kernel(), offer({&here, constant}, target)->front()};
  c.offer.config = "form=1 algo=7 tile=2";
  const auto same = offered_for(c, there, constant, target);
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->offer.config, c.offer.config);
  c.offer.config = "form=2 algo=7";
  EXPECT_FALSE(offered_for(c, there, constant, target).has_value());
}

TEST(ResolvedText, ReadsBackAndRefusesNonsense) {
  const Resolved all = {{"a=1", "a=2 b=3"}, "why \"not\"", false};
  EXPECT_EQ(*read_resolved(*parse_json(resolved_text(all))), all);
  for (const char* text : {"{}", R"({"configs":[1],"failed":"","lasting":true})", R"({"configs":["a"],"failed":""})"})
    EXPECT_FALSE(read_resolved(*parse_json(text)).ok()) << text;
}

}  // namespace
}  // namespace peri::tune
