// Files of the cache have a limit: the least recently used go first, what a process holds stays, and nothing else in
// the folder is touched.
#include "base/kept_files.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

namespace peri {
namespace {
namespace fs = std::filesystem;
constexpr size_t kBytes = 1000;

class KeptFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "peri_kept_files_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    cache_ = name;
    fs::create_directories(folder());
  }
  void TearDown() override { fs::remove_all(cache_); }
  std::string folder() const { return kept_folder(kServedEngines, cache_); }
  std::string path(char digit) const { return folder() + "/" + std::string(16, digit) + ".engine"; }
  // Last used `hours` ago.
  std::string put(char digit, int hours) const {
    const std::string at = path(digit);
    std::ofstream(at) << std::string(kBytes, 'x');
    fs::last_write_time(at, fs::last_write_time(at) - std::chrono::hours(hours));
    return at;
  }
  std::set<char> there() const {
    std::set<char> out;
    for (char c = 'a'; c <= 'f'; ++c)
      if (fs::exists(path(c))) out.insert(c);
    return out;
  }
  void trim(size_t files) const { trim_kept(kServedEngines, folder(), files * kBytes); }
  std::string cache_;
};

TEST_F(KeptFiles, TheLeastRecentlyUsedGoFirst) {
  put('a', 1);
  put('b', 4);
  put('c', 3);
  put('d', 2);
  trim(4);
  EXPECT_EQ(there(), (std::set{'a', 'b', 'c', 'd'})) << "they fit";
  trim(3);
  EXPECT_EQ(there(), (std::set{'a', 'c', 'd'}));
  hold_kept(path('c'));
  trim(2);
  EXPECT_EQ(there(), (std::set{'a', 'c'})) << "holding is using";
  trim(0);
  EXPECT_EQ(there(), std::set<char>{});
}

TEST_F(KeptFiles, WhatAProcessHoldsStaysUntilItEnds) {
  put('a', 9);
  put('b', 8);
  put('c', 7);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const Fd held = hold_kept(path('a'));
    const bool told = held.valid() && write(ready[1], "x", 1) == 1;
    if (told) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  fs::last_write_time(path('a'), fs::last_write_time(path('b')) - std::chrono::hours(1));
  trim(1);
  EXPECT_EQ(there(), std::set{'a'}) << "it counts, so that the others go";
  EXPECT_EQ(kept_facts(kServedEngines, cache_).held, 1);
  EXPECT_EQ(clear_kept(kServedEngines, cache_).value(), 0);
  EXPECT_EQ(there(), std::set{'a'});
  kill(holder, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  EXPECT_EQ(kept_facts(kServedEngines, cache_).held, 0);
  trim(0);
  EXPECT_EQ(there(), std::set<char>{});
  close(ready[0]);
  close(ready[1]);
}

TEST_F(KeptFiles, AnotherHolderOfThisProcessCountsToo) {
  const std::string file = put('a', 1);
  const Fd one = hold_kept(file);
  {
    const Fd two = hold_kept(file);
    trim(0);
  }
  trim(0);
  EXPECT_EQ(there(), std::set{'a'});
}

TEST_F(KeptFiles, NothingElseIsTouched) {
  const std::string own = folder() + "/notes.engine", link = path('b');
  std::ofstream(own) << "mine";
  const std::string target = cache_ + "/target";
  std::ofstream(target) << "mine";
  fs::create_symlink(target, link);
  put('a', 1);
  EXPECT_EQ(kept_facts(kServedEngines, cache_).files, 1);
  trim(0);
  EXPECT_EQ(clear_kept(kServedEngines, cache_).value(), 0);
  EXPECT_FALSE(fs::exists(path('a')));
  EXPECT_TRUE(fs::exists(own));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(target));
  fs::remove(own);
  fs::remove(link);
  put('a', 1);
  EXPECT_EQ(clear_kept(kServedEngines, cache_).value(), static_cast<int64_t>(kBytes));
  EXPECT_FALSE(fs::exists(folder())) << "an empty folder goes too";
  EXPECT_FALSE(hold_kept(path('a')).valid());
}

TEST_F(KeptFiles, EveryKindHasAFolderAndALimitOfItsOwn) {
  std::set<std::string_view> folders, suffixes, variables;
  for (const KeptKind* kind : kept_kinds()) {
    folders.insert(kind->folder);
    suffixes.insert(kind->suffix);
    const std::string variable(knob_rows()[static_cast<size_t>(kind->limit)].variable);
    variables.insert(knob_rows()[static_cast<size_t>(kind->limit)].variable);
    unsetenv(variable.c_str());
    EXPECT_EQ(kept_limit_bytes(*kind), kind->default_mib << 20);
    EXPECT_NE(knob_rows()[static_cast<size_t>(kind->limit)].summary.find(
                  format("default %d;", static_cast<int>(kind->default_mib))),
              std::string_view::npos)
        << variable << ": what help says is what holds";
    setenv(variable.c_str(), "3", 1);
    EXPECT_EQ(kept_limit_bytes(*kind), uint64_t{3} << 20);
    unsetenv(variable.c_str());
  }
  EXPECT_EQ(folders.size(), kept_kinds().size());
  EXPECT_EQ(suffixes.size(), kept_kinds().size());
  EXPECT_EQ(variables.size(), kept_kinds().size());
}

}  // namespace
}  // namespace peri
