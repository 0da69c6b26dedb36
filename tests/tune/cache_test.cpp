// Timings survive the process, hold for their machine only, and a cache that cannot be used or believed is told and
// harmless.
#include "tune/cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "tune/cache_files.hpp"

namespace peri::tune {
namespace {

std::string folder(const char* name) {
  return (std::filesystem::temp_directory_path() / ("peri_cache_" + std::string(name) + std::to_string(getpid())))
      .string();
}

Evidence timed(double time_ms, double max_error) {
  Evidence e;
  e.time_ms = time_ms;
  e.max_error = max_error;
  e.statistic = kTimeStatistic;
  e.compared_with = "other@1 {}";
  e.runs = 5;
  return e;
}
Evidence wrong() {
  Evidence e;
  e.rejected = "wrong answer";
  return e;
}

TEST(TimingCache, RowsComeBackForTheirMachineOnly) {
  const std::string dir = folder("rows") + "/deep";
  {
    const auto cache = Cache::open(dir, "here");
    EXPECT_EQ(cache->trouble(), "");
    cache->store("problem", "k@1 {}", timed(1.5, 0.25));
    cache->store("problem", "bad@1 {}", wrong());
  }
  const auto again = Cache::open(dir, "here");
  ASSERT_TRUE(again->find("problem", "k@1 {}"));
  EXPECT_EQ(again->find("problem", "k@1 {}")->time_ms, 1.5);
  EXPECT_EQ(again->find("problem", "bad@1 {}")->rejected, "wrong answer");
  EXPECT_FALSE(again->find("other problem", "k@1 {}"));
  EXPECT_FALSE(Cache::open(dir, "elsewhere")->find("problem", "k@1 {}"));
  EXPECT_EQ(cache_facts(dir)->rows, 2);
  EXPECT_GT(clear_cache(dir).value(), 0);
  EXPECT_FALSE(cache_facts(dir)->exists);
  std::filesystem::remove_all(folder("rows"));
}

// 'peri cache clear' while a build runs: what was there before is gone, and what the build measures is kept.
TEST(TimingCache, WhatABuildStoresOutlivesADeletionMeanwhile) {
  const std::string dir = folder("cleared");
  Cache::open(dir, "here")->store("problem", "old@1 {}", timed(3, 0.25));
  const auto cache = Cache::open(dir, "here");
  cache->store("problem", "before@1 {}", timed(1.5, 0.25));
  EXPECT_GT(clear_cache(dir).value(), 0);
  cache->store("problem", "behind@1 {}", timed(2.5, 0.25));
  EXPECT_TRUE(cache->find("problem", "before@1 {}"));
  std::filesystem::remove_all(dir);  // with its folder
  cache->store("problem", "last@1 {}", timed(3.5, 0.25));
  EXPECT_EQ(cache->trouble(), "");
  const auto later = Cache::open(dir, "here");
  EXPECT_FALSE(later->find("problem", "old@1 {}"));
  for (const char* candidate : {"before@1 {}", "behind@1 {}", "last@1 {}"})
    EXPECT_TRUE(later->find("problem", candidate)) << candidate;
  std::filesystem::remove_all(dir);
}

TEST(TimingCache, RenewingBelievesOnlyWhatItWasGiven) {
  const std::string dir = folder("renewed");
  {
    const auto cache = Cache::open(dir, "here");
    cache->store("problem", "k@1 {}", timed(1.5, 0.25));
    cache->store("problem", "other@1 {}", timed(2.5, 0.25));
    cache->store_samples("k@1", {57, "", true});
    cache->store_resolved("problem", "k@1 {}", {{"algorithm=3"}, "", true});
    cache->store_verdict("engine", "{}");
  }
  {
    const auto renewing = Cache::open(dir, "here", true);
    EXPECT_FALSE(renewing->find("problem", "k@1 {}"));
    renewing->store("problem", "k@1 {}", timed(1.25, 0.5));
    ASSERT_TRUE(renewing->find("problem", "k@1 {}")) << "what this build found itself";
    EXPECT_FALSE(renewing->find("problem", "other@1 {}"));
    EXPECT_FALSE(renewing->find_samples("k@1")) << "samples run again";
    EXPECT_FALSE(renewing->find_resolved("problem", "k@1 {}")) << "the library is asked again";
    EXPECT_FALSE(renewing->find_verdict("engine")) << "the engine is judged again";
    renewing->store_samples("k@1", {58, "", true});
    renewing->store_resolved("problem", "k@1 {}", {{"algorithm=4"}, "", true});
    EXPECT_EQ(renewing->find_samples("k@1")->samples, 58);
    EXPECT_EQ(renewing->find_resolved("problem", "k@1 {}")->configs, std::vector<std::string>{"algorithm=4"});
  }
  const auto after = Cache::open(dir, "here");
  EXPECT_EQ(after->find("problem", "k@1 {}")->time_ms, 1.25) << "replaced";
  EXPECT_EQ(after->find("problem", "other@1 {}")->time_ms, 2.5) << "not lost";
  std::filesystem::remove_all(dir);
}

TEST(TimingCache, ADamagedFileIsToldAndBegunAnew) {
  const std::string dir = folder("damaged"), file = dir + "/timings.sqlite", rubbish(4096, 'x');
  std::filesystem::create_directories(dir);
  ASSERT_TRUE(write_file_atomic(file, rubbish).ok());
  EXPECT_FALSE(cache_facts(dir).ok());
  {
    const auto cache = Cache::open(dir, "here");
    EXPECT_EQ(cache->trouble(), "the timing cache " + file +
                                    " was damaged (file is not a database) and is begun anew; the damaged one is now " +
                                    file + ".damaged");
    cache->store("problem", "k@1 {}", timed(1, 1));
    EXPECT_TRUE(cache->find("problem", "k@1 {}"));
  }
  EXPECT_EQ(read_file(file + ".damaged", 1 << 20).value(), rubbish);
  const auto again = Cache::open(dir, "here");
  EXPECT_EQ(again->trouble(), "");
  EXPECT_TRUE(again->find("problem", "k@1 {}"));
  EXPECT_GT(clear_cache(dir).value(), 4096);
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  std::filesystem::remove_all(dir);
}

// A build has just made it, or the disk was full.
TEST(TimingCache, AnEmptyFileHoldsNothing) {
  const std::string dir = folder("empty");
  std::filesystem::create_directories(dir);
  ASSERT_TRUE(write_file_atomic(dir + "/timings.sqlite", "").ok());
  const auto facts = cache_facts(dir);
  ASSERT_TRUE(facts.ok()) << facts.error().text();
  EXPECT_TRUE(facts->exists);
  EXPECT_EQ(facts->rows, 0);
  std::filesystem::remove_all(dir);
}

TEST(Cache, AProblemThatNoLineSaysIsFoundByItsHash) {
  const std::string dir = folder("problems");
  std::filesystem::remove_all(dir);
  const auto region = problem::parse(
      "region weights=x1 graph { input x0: f32[2,3]; input x1: f32[3,4]; t2 = matmul(x0, x1); t3 = relu(t2); "
      "output t2; output t3 }");
  const auto line = problem::parse("relu x=f32[4]");
  ASSERT_TRUE(region.ok() && line.ok());
  for (const auto* p : {&*region, &*line}) Cache::open(dir, "here")->store_problem(p->graph, p->weights);
  const auto cache = Cache::open(dir, "another machine");
  EXPECT_EQ(cache->find_problem(problem::hash(*region)), problem::text(*region));
  EXPECT_FALSE(cache->find_problem(problem::hash(*line)));
  std::filesystem::remove_all(dir);
}

// Rows of both tables in a folder of their own.
class StoredRows : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = folder("stored");
    std::filesystem::remove_all(dir_);
    const auto cache = Cache::open(dir_, "here");
    ASSERT_EQ(cache->trouble(), "");
    cache->store("problem", "k@1 {}", row_);
    cache->store("problem", "bad@1 {}", wrong());
    cache->store_samples("k@1", {57, "", true});
    cache->store_samples("bad@1", {3, "wrong on a sample", true});
    cache->store_verdict("engine", verdict_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string file() const { return dir_ + "/timings.sqlite"; }
  void write(const std::string& bytes) const { ASSERT_TRUE(write_file_atomic(file(), bytes).ok()); }
  std::string dir_;
  const Evidence row_ = timed(1.5, 0.25);
  const std::string verdict_ = R"({"judged":3})";
};

TEST_F(StoredRows, AFlippedBitAnywhereIsNeverAnAnswer) {
  const std::string good = read_file(file(), 1 << 20).value();
  Rng rng(11);
  int gone = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bad = good;
    const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())));
    bad[at] = static_cast<char>(bad[at] ^ (1 << rng.below(8)));
    write(bad);
    const auto cache = Cache::open(dir_, "here");
    const auto fast = cache->find("problem", "k@1 {}"), wrong = cache->find("problem", "bad@1 {}");
    const auto right = cache->find_samples("k@1"), failed = cache->find_samples("bad@1");
    EXPECT_TRUE(!fast || *fast == row_) << "byte " << at;
    EXPECT_TRUE(!wrong || wrong->rejected == "wrong answer") << "byte " << at;
    EXPECT_TRUE(!right || (right->samples == 57 && right->failed.empty())) << "byte " << at;
    EXPECT_TRUE(!failed || failed->failed == "wrong on a sample") << "byte " << at;
    const auto verdict = cache->find_verdict("engine");
    EXPECT_TRUE(!verdict || *verdict == verdict_) << "byte " << at;
    gone += !fast || !wrong || !right || !failed || !verdict;
  }
  EXPECT_GT(gone, 10) << "no row was hit";
}

// Damage that is found only when a row is looked for: what this object has stored before is in the new file too.
TEST_F(StoredRows, AHalfDamagedFileIsBegunAnew) {
  {
    const auto cache = Cache::open(dir_, "here");
    for (int k = 0; k < 400; ++k) cache->store("problem " + std::to_string(k), "k@1 {}", row_);
  }
  std::string bytes = read_file(file(), 4 << 20).value();
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 4), bytes.end(), 'x');
  write(bytes);
  {
    const auto cache = Cache::open(dir_, "here");
    for (int k = 400; k < 420 && cache->trouble().empty(); ++k)
      cache->store("problem " + std::to_string(k), "k@1 {}", row_);
    for (int k = 0; k < 400 && cache->trouble().empty(); ++k)
      (void)cache->find("problem " + std::to_string(k), "k@1 {}");
    EXPECT_NE(cache->trouble().find("is begun anew"), std::string::npos) << cache->trouble();
    cache->store("problem", "last@1 {}", row_);
  }
  const auto again = Cache::open(dir_, "here");
  EXPECT_TRUE(again->find("problem 400", "k@1 {}"));
  EXPECT_TRUE(again->find("problem", "last@1 {}"));
  for (int k = 0; k < 400; ++k) (void)again->find("problem " + std::to_string(k), "k@1 {}");
  EXPECT_EQ(again->trouble(), "");
}

TEST_F(StoredRows, AWholeFileIsNeverSetAside) {
  EXPECT_EQ(set_aside(file()), "");
  EXPECT_EQ(set_aside(file() + "none"), "");
  EXPECT_FALSE(std::filesystem::exists(file() + ".damaged"));
  EXPECT_TRUE(Cache::open(dir_, "here")->find("problem", "k@1 {}"));
  for (const int busy_locked_memory_readonly_io_full_open : {5, 6, 7, 8, 10, 13, 14})
    EXPECT_FALSE(says_damage(busy_locked_memory_readonly_io_full_open));
  for (const int corrupt_not_a_database_corrupt_index : {11, 26, 779})
    EXPECT_TRUE(says_damage(corrupt_not_a_database_corrupt_index));
}

TEST_F(StoredRows, ADamagedRowIsToldAndReplaced) {
  std::string bytes = read_file(file(), 1 << 20).value();
  const size_t at = bytes.find("\"time_ms\":1.5");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 10] = '0';  // 0.5
  write(bytes);
  {
    const auto cache = Cache::open(dir_, "here");
    EXPECT_FALSE(cache->find("problem", "k@1 {}"));
    EXPECT_NE(cache->trouble().find("1 row of the timing cache " + file()), std::string::npos) << cache->trouble();
    EXPECT_TRUE(cache->find("problem", "bad@1 {}")) << "the other rows are whole";
    cache->store("problem", "k@1 {}", timed(2, 0.5));
  }
  const auto again = Cache::open(dir_, "here");
  ASSERT_TRUE(again->find("problem", "k@1 {}"));
  EXPECT_EQ(again->find("problem", "k@1 {}")->time_ms, 2);
  EXPECT_EQ(again->trouble(), "");
}

TEST_F(StoredRows, NonsenseIsNotKept) {
  const auto cache = Cache::open(dir_, "here");
  Evidence unsaid = timed(1, 0.5), negative = timed(1, 0.5), refused = timed(1, 1.5);
  unsaid.statistic.clear();
  negative.positions = -1;
  for (const Evidence& e : {timed(NAN, 0.5), timed(INFINITY, 0.5), timed(-3, 0.5), timed(1, NAN), timed(1, -0.5),
                            timed(1, 1.5), timed(1, INFINITY), unsaid, negative}) {
    cache->store("nonsense", "k@1 {}", e);
    EXPECT_FALSE(cache->find("nonsense", "k@1 {}")) << e.time_ms << " " << e.max_error;
  }
  refused.rejected = "wrong answer";
  cache->store("nonsense", "k@1 {}", refused);
  EXPECT_TRUE(cache->find("nonsense", "k@1 {}")) << "a refused candidate's error may be any";
}

TEST_F(StoredRows, AVerdictHoldsForItsEngineAndMachine) {
  const auto cache = Cache::open(dir_, "here");
  EXPECT_EQ(cache->find_verdict("engine"), verdict_);
  EXPECT_FALSE(cache->find_verdict("another engine"));
  EXPECT_FALSE(cache->find_whole("engine")) << "a row of another kind";
  EXPECT_FALSE(Cache::open(dir_, "elsewhere")->find_verdict("engine"));
  EXPECT_EQ(cache_facts(dir_)->rows, 2) << "of timings";
}

TEST_F(StoredRows, TheWayToADeviceIsKept) {
  const auto cache = Cache::open(dir_, "here");
  EXPECT_FALSE(cache->find_crossing("cuda"));
  const Crossing measured{0.0125, 2.5e7, true};
  cache->store_crossing("cuda", measured);
  EXPECT_EQ(cache->find_crossing("cuda"), measured);
  EXPECT_FALSE(cache->find_crossing("null"));
  EXPECT_FALSE(Cache::open(dir_, "elsewhere")->find_crossing("cuda"));
  EXPECT_FALSE(Cache::open(dir_, "here", true)->find_crossing("cuda")) << "measured again";
}

TEST_F(StoredRows, PeaksAreKept) {
  const auto cache = Cache::open(dir_, "here");
  EXPECT_FALSE(cache->find_peaks("1.0 start"));
  bench::Peaks peaks;
  peaks.threads = 2;
  peaks.fma_gflops = 123.5;
  peaks.copy_gbs = peaks.read_gbs = {{1024, 7.25}};
  cache->store_peaks("1.0 start", peaks);
  const auto read = cache->find_peaks("1.0 start");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fma_gflops, 123.5);
  EXPECT_EQ(read->copy_gbs, peaks.copy_gbs);
  EXPECT_FALSE(Cache::open(dir_, "elsewhere")->find_peaks("1.0 start"));
  EXPECT_FALSE(cache->find_peaks("1.0 next start")) << "the machine was started again, perhaps on another host";
  peaks.fma_gflops = 99;
  cache->store_peaks("1.0 next start", peaks);
  EXPECT_EQ(cache->find_peaks("1.0 next start")->fma_gflops, 99);
  EXPECT_FALSE(cache->find_peaks("1.0 start")) << "a machine has one row";
}

TEST_F(StoredRows, AShortBuildTakesPeaksThatAreKnownAndMeasuresNone) {
  const std::string folder = dir_ + "_peaks";
  EXPECT_FALSE(machine_peaks(folder, 1, kPeaksAfterSeconds / 2));
  const auto measured = machine_peaks(folder, 1, kPeaksAfterSeconds);
  ASSERT_TRUE(measured);
  EXPECT_GT(measured->copy_gbs.back().second, 0);
  const auto known = machine_peaks(folder, 1, 0);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->copy_gbs, measured->copy_gbs);
  std::filesystem::remove_all(folder);
}

TEST_F(StoredRows, AFileOfAnotherFormIsNotUsed) {
  std::string bytes = read_file(file(), 1 << 20).value();
  int named = 0;
  for (size_t at = bytes.find("known4"); at != std::string::npos; at = bytes.find("known4", at)) {
    bytes.replace(at, 6, "known3");
    ++named;
  }
  ASSERT_GT(named, 0);
  write(bytes);
  const auto cache = Cache::open(dir_, "here");
  EXPECT_EQ(cache->trouble(), "");
  EXPECT_FALSE(cache->find("problem", "k@1 {}"));
  EXPECT_EQ(cache_facts(dir_)->rows, 0);
  cache->store("problem", "k@1 {}", row_);
  EXPECT_TRUE(cache->find("problem", "k@1 {}")) << "it is used from now on";
}

TEST_F(StoredRows, WhatOthersMayWriteToIsNotUsed) {
  const auto trouble = [&] {
    const auto cache = Cache::open(dir_, "here");
    EXPECT_EQ(cache->find("problem", "k@1 {}").has_value(), cache->trouble().empty());
    return cache->trouble();
  };
  EXPECT_EQ(trouble(), "");
  ASSERT_EQ(chmod(file().c_str(), 0666), 0);
  EXPECT_NE(trouble().find(file() + " is not used, because others may write to it (mode 666)"), std::string::npos)
      << trouble();
  ASSERT_EQ(chmod(file().c_str(), 0644), 0);
  ASSERT_EQ(chmod(dir_.c_str(), 0777), 0);
  EXPECT_NE(trouble().find("of its folder"), std::string::npos) << trouble();
  EXPECT_NE(trouble().find("keep it in a folder of your own"), std::string::npos) << trouble();
  ASSERT_EQ(chmod(dir_.c_str(), 01777), 0);
  EXPECT_EQ(trouble(), "");
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  write_file_atomic(file() + "-journal", "").ok();
  ASSERT_EQ(chmod((file() + "-journal").c_str(), 0622), 0);
  EXPECT_NE(trouble().find("of its journal"), std::string::npos) << trouble();
  ASSERT_EQ(unlink((file() + "-journal").c_str()), 0);
  if (geteuid() != 0) return;  // only root can give files away
  ASSERT_EQ(chown(file().c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_NE(trouble().find("belongs to user 12345"), std::string::npos) << trouble();
}

}  // namespace
}  // namespace peri::tune
