// Timings survive the process, hold for their machine only, and a cache that cannot be used is told and harmless.
#include "tune/cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"

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
  EXPECT_NE(cache->trouble(), "");
  cache->store("problem", "k@1 {}", {1, 1, ""});
  EXPECT_FALSE(cache->find("problem", "k@1 {}"));
  EXPECT_FALSE(cache_facts(dir).ok());
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace peri::tune
