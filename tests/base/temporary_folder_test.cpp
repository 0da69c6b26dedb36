// A temporary folder goes with its owner; what a killed process left goes with the next of its name, and nothing that
// lives or is another's.
#include "base/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace peri {
namespace {
namespace fs = std::filesystem;

TemporaryFolder made(const std::string& name) {
  auto out = TemporaryFolder::create(name);
  EXPECT_TRUE(out.ok()) << out.error().text();
  return *std::move(out);
}
void put(const std::string& folder) {
  fs::create_directories(folder + "/inside");
  std::ofstream(folder + "/inside/file") << "x";
}

TEST(TemporaryFolder, GoesWithItsOwner) {
  std::string path;
  {
    TemporaryFolder one = made("own");
    path = one.path();
    EXPECT_EQ(fs::path(path).parent_path(), fs::temp_directory_path());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    put(path);
    const TemporaryFolder moved = std::move(one);
    EXPECT_EQ(moved.path(), path);
    const TemporaryFolder other = made("own");
    EXPECT_NE(other.path(), path);
    EXPECT_TRUE(fs::exists(path + "/inside/file")) << "its owner lives";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolder, WhatAKilledProcessLeftGoesWithTheNext) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const TemporaryFolder left = made("left");
    put(left.path());
    if (write(ends[1], left.path().c_str(), left.path().size()) > 0) pause();
    _exit(1);
  }
  char path[4096] = {};
  ASSERT_GT(read(ends[0], path, sizeof path - 1), 0);
  made("left");
  EXPECT_TRUE(fs::exists(path)) << "it lives";
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(fs::exists(path));
  made("another");
  EXPECT_TRUE(fs::exists(path)) << "of another name";
  made("left");
  EXPECT_FALSE(fs::exists(path));
  close(ends[0]);
  close(ends[1]);
}

// Each looks for what others left while they are between making and locking theirs.
TEST(TemporaryFolder, ManyMakeOnesAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> made_well = 0;
  constexpr int kThreads = 8, kTimes = 200;
  for (int k = 0; k < kThreads; ++k)
    threads.emplace_back([&] {
      for (int n = 0; n < kTimes; ++n) {
        const auto one = TemporaryFolder::create("many");
        made_well += one.ok() && fs::exists(one->path());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(made_well, kThreads * kTimes);
}

TEST(TemporaryFolder, OtherThingsStay) {
  const fs::path target = fs::temp_directory_path() / ("peri_stays_" + std::to_string(getpid()));
  const fs::path link = fs::temp_directory_path() / "peri-stays-abcdef",
                 file = fs::temp_directory_path() / "peri-stays-ghijkl",
                 longer = fs::temp_directory_path() / "peri-stays-abcdefg";
  put(target.string());
  put(longer.string());
  fs::create_directory_symlink(target, link);
  std::ofstream(file.string()) << "x";
  made("stays");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(target / "inside/file"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_TRUE(fs::exists(longer));
  for (const fs::path& p : {link, file}) fs::remove(p);
  for (const fs::path& p : {target, longer}) fs::remove_all(p);
}

}  // namespace
}  // namespace peri
