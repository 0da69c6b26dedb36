// A worker that crashes, hangs or is killed costs its candidate and not the build; without a worker the build judges in
// its own process and says so; a good worker finds what this process finds.
#include "tune/worker.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include "ops/entry.hpp"
#include "tests/places.hpp"

namespace peri::tune {
namespace {

namespace fs = std::filesystem;

const std::string kProgram = std::string(tests::kBuildDir) + "/bin/failing_worker";

ir::Graph product_graph() {
  auto g =
      ir::parse_graph("graph { input x: f32[7,24]; input w: f32[24,40]; m = matmul(x, w); y = relu(m); output y }");
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  return std::move(*g);
}

class Worker : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("peri_worker_" + std::to_string(getpid()))).string();
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The failing worker under a name that tells it what to do.
  std::string named(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    fs::create_symlink(kProgram, path);
    return path;
  }
  Candidates judged(const std::string& worker, Tuner::Stats* stats, const std::string& cache = "") {
    Options options;
    options.worker = worker;
    options.budget_ms = 1;
    options.cache_path = cache;
    Tuner tuner(options);
    const Candidates all = tuner.candidates(product_graph(), {false, true});
    *stats = tuner.stats();
    return all;
  }
  static const Candidate* find(const Candidates& all, std::string_view kernel) {
    for (const Candidate& c : all.list)
      if (c.kernel->name == kernel) return &c;
    return nullptr;
  }
  std::string folder_;
};

TEST_F(Worker, AGoodOneFindsWhatThisProcessFinds) {
  Tuner::Stats stats, own;
  const Candidates there = judged(named("good"), &stats), here = judged("", &own);
  EXPECT_TRUE(stats.worker);
  EXPECT_EQ(stats.worker_deaths, 0);
  EXPECT_FALSE(own.worker);
  ASSERT_EQ(there.list.size(), here.list.size());
  for (const Candidate& c : there.list) {
    EXPECT_EQ(c.evidence.rejected, "");
    EXPECT_GT(c.evidence.time_ms, 0);
    bool same = false;
    for (const Candidate& o : here.list)
      same = same || (o.id() == c.id() && o.evidence.max_error == c.evidence.max_error);
    EXPECT_TRUE(same) << c.id();
  }
}

// Resident bytes of the only process that this one has started, now and at most; 0: none.
std::pair<size_t, size_t> resident_of_child() {
  std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
  std::string pid;
  if (!(children >> pid)) return {0, 0};
  std::ifstream status("/proc/" + pid + "/status");
  size_t now = 0, most = 0;
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now;
    if (word == "VmHWM:") status >> most;
  }
  return {now << 10, most << 10};
}

TEST_F(Worker, GivesBackTheMemoryOfALargeProblem) {
  auto g = ir::parse_graph("graph { input x: f32[12000000]; m = relu(x); y = tanh(m); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  Options options;
  options.worker = named("keep-memory");
  options.budget_ms = 1;
  Tuner tuner(options);
  ASSERT_FALSE(tuner.candidates(*g, {false}).list.empty());
  size_t now = 0, most = 0;
  for (int k = 0; k < 1200; ++k) {  // it answers, and then gives back
    const auto seen = resident_of_child();
    if (seen.second == 0) break;  // it has ended
    std::tie(now, most) = seen;
    if (now < most / 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_GT(most, size_t{500} << 20);
  EXPECT_LT(now, size_t{400} << 20) << "of " << most;
}

TEST_F(Worker, ACrashRefusesItsCandidateOnly) {
  for (const auto& [action, signal] : {std::pair("segv", "SIGSEGV"), {"abort", "SIGABRT"}, {"kill", "SIGKILL"}}) {
    Tuner::Stats stats;
    const Candidates all = judged(named(std::string(action) + "-gemm_f32"), &stats);
    ASSERT_NE(find(all, "gemm_f32"), nullptr);
    ASSERT_NE(find(all, "onednn_matmul"), nullptr);
    EXPECT_NE(find(all, "gemm_f32")->evidence.rejected.find(signal), std::string::npos)
        << find(all, "gemm_f32")->evidence.rejected;
    EXPECT_EQ(find(all, "onednn_matmul")->evidence.rejected, "");
    EXPECT_EQ(all.list[0].kernel->name, "onednn_matmul");
    EXPECT_TRUE(stats.worker);
    EXPECT_GE(stats.worker_deaths, 1);
  }
}

TEST_F(Worker, AFailedCheckRefusesItsCandidateAndTheWorkerLives) {
  Tuner::Stats stats;
  const Candidates all = judged(named("check-gemm_f32"), &stats);
  ASSERT_NE(find(all, "gemm_f32"), nullptr);
  ASSERT_NE(find(all, "onednn_matmul"), nullptr);
  for (const Candidate& c : all.list) {
    const bool fails = c.kernel->name == "gemm_f32";
    EXPECT_EQ(c.evidence.rejected.starts_with("internal check failed at "), fails)
        << c.id() << ": " << c.evidence.rejected;
    EXPECT_EQ(c.evidence.time_ms > 0, !fails) << c.id();
  }
  EXPECT_TRUE(stats.worker);
  EXPECT_EQ(stats.worker_deaths, 0);
}

TEST_F(Worker, ACrashIsKeptAndAKillIsNot) {
  for (const auto& [action, kept] : {std::pair("segv", true), {"kill", false}}) {
    const std::string program = named(std::string(action) + "-gemm_f32"), cache = folder_ + "/" + action;
    Tuner::Stats first, second;
    judged(program, &first, cache);
    judged(program, &second, cache);
    EXPECT_GT(second.from_cache, 0);
    EXPECT_EQ(second.worker_deaths == 0, kept) << action;
  }
}

TEST_F(Worker, OneThatOthersKilledIsReplacedAndTriesAgain) {
  Tuner::Stats stats;
  const Candidates all = judged(named("kill1-gemm_f32"), &stats);
  for (const Candidate& c : all.list) EXPECT_EQ(c.evidence.rejected, "") << c.id();
  EXPECT_EQ(stats.worker_deaths, 1);
  EXPECT_TRUE(stats.worker);
}

TEST_F(Worker, OneThatHangsIsEndedAndRefused) {
  auto remote = RemoteJudge::start(named("hang-gemm_f32"), 1, 3.0);
  ASSERT_TRUE(remote.ok()) << remote.error().text();
  Tuner::Stats stats;
  const Candidates all = judged("", &stats);
  std::vector<const Candidate*> list;
  for (const Candidate& c : all.list) list.push_back(&c);
  std::vector<Verdict> verdicts(list.size());
  const Status done =
      (*remote)->judge(product_graph(), {false, true}, list, {.budget_ms = 1}, [&](size_t k, const Verdict* v) {
        if (v) verdicts[k] = *v;
      });
  ASSERT_TRUE(done.ok()) << done.error().text();
  for (size_t k = 0; k < list.size(); ++k) {
    const bool hangs = list[k]->kernel->name == "gemm_f32";
    EXPECT_EQ(verdicts[k].evidence.rejected.find("no answer") != std::string::npos, hangs)
        << verdicts[k].evidence.rejected;
    EXPECT_EQ(verdicts[k].lasting, !hangs);
  }
}

TEST_F(Worker, WithoutOneTheBuildGoesOnAndSaysSo) {
  for (const char* program : {"/nowhere/peri", "/bin/true"}) {
    Tuner::Stats stats;
    const Candidates all = judged(program, &stats);
    ASSERT_FALSE(all.list.empty());
    for (const Candidate& c : all.list) EXPECT_EQ(c.evidence.rejected, "") << c.id();
    EXPECT_FALSE(stats.worker);
    EXPECT_NE(stats.worker_trouble.find(program), std::string::npos) << stats.worker_trouble;
  }
}

// Of many samples on a busy machine.
TEST_F(Worker, SamplesThatGoOnAreWaitedFor) {
  auto remote = RemoteJudge::start(named("slow-gemm_f32"), 1, 3);
  ASSERT_TRUE(remote.ok()) << remote.error().text();
  const auto there = (*remote)->samples(*kernels::find("gemm_f32"));
  ASSERT_TRUE(there.ok()) << there.error().text();
  EXPECT_EQ(there->failed, "");
  EXPECT_EQ((*remote)->deaths(), 0);
}

// A build that is interrupted does not wait for them, nor takes their kernel for wrong.
TEST_F(Worker, SamplesEndWithTheBuild) {
  auto remote = RemoteJudge::start(named("slow-gemm_f32"), 1);
  ASSERT_TRUE(remote.ok()) << remote.error().text();
  const auto none = (*remote)->samples(*kernels::find("gemm_f32"), [] { return true; });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ((*remote)->deaths(), 0);
  Options options;
  options.worker = named("slow-conv_f32");
  options.late_samples = true;
  bool stop = false;
  options.stop = [&stop] { return stop; };
  Tuner tuner(options);
  const Candidates all = tuner.candidates(product_graph(), {false, true});
  ASSERT_FALSE(all.list.empty());
  stop = true;
  EXPECT_EQ(tuner.wrong_on_samples(all.list[0]), "");
  EXPECT_EQ(tuner.stats().kernels_sampled, 0);
  stop = false;
  EXPECT_EQ(tuner.wrong_on_samples(all.list[0]), "");
  EXPECT_EQ(tuner.stats().kernels_sampled, 1);
}

TEST_F(Worker, SamplesAreJudgedThereToo) {
  auto remote = RemoteJudge::start(named("good"), 1);
  ASSERT_TRUE(remote.ok()) << remote.error().text();
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != "cpu") continue;
    const auto there = (*remote)->samples(e->kernel);
    ASSERT_TRUE(there.ok()) << there.error().text();
    const SampleVerdict here = Judge(1).samples(e->kernel);
    EXPECT_EQ(there->failed, "") << e->kernel.name;
    EXPECT_EQ(there->samples, here.samples) << e->kernel.name;
    if (e->kernel.name == "gemm_f32" || e->kernel.name == "conv_f32") EXPECT_GT(here.samples, 20) << e->kernel.name;
  }
}

}  // namespace
}  // namespace peri::tune
