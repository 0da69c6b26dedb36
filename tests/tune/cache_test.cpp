// Timings survive the process, hold for their machine only, and a cache that cannot be used or believed is told and
// harmless.
#include "tune/cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"

namespace peri::tune {
namespace {

std::string folder(const char* name) {
  return (std::filesystem::temp_directory_path() / ("peri_cache_" + std::string(name) + std::to_string(getpid())))
      .string();
}

TEST(TimingCache, RowsComeBackForTheirMachineOnly) {
  const std::string dir = folder("rows") + "/deep";
  {
    const auto cache = Cache::open(dir, "here");
    EXPECT_EQ(cache->trouble(), "");
    cache->store("problem", "k@1 {}", {1.5, 0.25, ""});
    cache->store("problem", "bad@1 {}", {-1, -1, "wrong answer"});
  }
  const auto again = Cache::open(dir, "here");
  ASSERT_TRUE(again->find("problem", "k@1 {}"));
  EXPECT_EQ(again->find("problem", "k@1 {}")->median_ms, 1.5);
  EXPECT_EQ(again->find("problem", "bad@1 {}")->rejected, "wrong answer");
  EXPECT_FALSE(again->find("other problem", "k@1 {}"));
  EXPECT_FALSE(Cache::open(dir, "elsewhere")->find("problem", "k@1 {}"));
  EXPECT_EQ(cache_facts(dir)->rows, 2);
  EXPECT_GT(clear_cache(dir).value(), 0);
  EXPECT_FALSE(cache_facts(dir)->exists);
  std::filesystem::remove_all(folder("rows"));
}

TEST(TimingCache, ADamagedFileIsToldAndHarmless) {
  const std::string dir = folder("damaged");
  std::filesystem::create_directories(dir);
  ASSERT_TRUE(write_file_atomic(dir + "/timings.sqlite", std::string(4096, 'x')).ok());
  const auto cache = Cache::open(dir, "here");
  EXPECT_NE(cache->trouble().find("peri cache clear"), std::string::npos) << cache->trouble();
  cache->store("problem", "k@1 {}", {1, 1, ""});
  EXPECT_FALSE(cache->find("problem", "k@1 {}"));
  EXPECT_FALSE(cache_facts(dir).ok());
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
    cache->store("problem", "bad@1 {}", {-1, -1, "wrong answer"});
    cache->store_samples("k@1", {57, "", true});
    cache->store_samples("bad@1", {3, "wrong on a sample", true});
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string file() const { return dir_ + "/timings.sqlite"; }
  void write(const std::string& bytes) const { ASSERT_TRUE(write_file_atomic(file(), bytes).ok()); }
  std::string dir_;
  const CacheRow row_{1.5, 0.25, "", "other@1 {}"};
};

bool same(const CacheRow& a, const CacheRow& b) {
  return a.median_ms == b.median_ms && a.max_error == b.max_error && a.rejected == b.rejected &&
         a.compared_with == b.compared_with;
}

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
    EXPECT_TRUE(!fast || same(*fast, row_)) << "byte " << at;
    EXPECT_TRUE(!wrong || wrong->rejected == "wrong answer") << "byte " << at;
    EXPECT_TRUE(!right || (right->samples == 57 && right->failed.empty())) << "byte " << at;
    EXPECT_TRUE(!failed || failed->failed == "wrong on a sample") << "byte " << at;
    gone += !fast || !wrong || !right || !failed;
  }
  EXPECT_GT(gone, 10) << "no row was hit";
}

TEST_F(StoredRows, ADamagedRowIsToldAndReplaced) {
  std::string bytes = read_file(file(), 1 << 20).value();
  const std::string median("\x3f\xf8\0\0\0\0\0\0", 8);  // 1.5 as SQLite stores it
  const size_t at = bytes.find(median);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = '\x78';  // 0.0058...
  write(bytes);
  {
    const auto cache = Cache::open(dir_, "here");
    EXPECT_FALSE(cache->find("problem", "k@1 {}"));
    EXPECT_NE(cache->trouble().find("1 rows of the timing cache " + file()), std::string::npos) << cache->trouble();
    EXPECT_TRUE(cache->find("problem", "bad@1 {}")) << "the other rows are whole";
    cache->store("problem", "k@1 {}", {2, 0.5, "", ""});
  }
  const auto again = Cache::open(dir_, "here");
  ASSERT_TRUE(again->find("problem", "k@1 {}"));
  EXPECT_EQ(again->find("problem", "k@1 {}")->median_ms, 2);
  EXPECT_EQ(again->trouble(), "");
}

TEST_F(StoredRows, NonsenseIsNotKept) {
  const auto cache = Cache::open(dir_, "here");
  const CacheRow nonsense[] = {{NAN, 0.5, "", ""}, {INFINITY, 0.5, "", ""}, {-3, 0.5, "", ""},     {1, NAN, "", ""},
                               {1, -0.5, "", ""},  {1, 1.5, "", ""},        {1, INFINITY, "x", ""}};
  for (const CacheRow& row : nonsense) {
    cache->store("nonsense", "k@1 {}", row);
    EXPECT_FALSE(cache->find("nonsense", "k@1 {}")) << row.median_ms << " " << row.max_error;
  }
  cache->store("nonsense", "k@1 {}", {1, 1.5, "wrong answer", ""});
  EXPECT_TRUE(cache->find("nonsense", "k@1 {}")) << "a refused candidate's error may be any";
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
