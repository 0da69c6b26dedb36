// Packed weights that are kept: found whole by the same key only, void when cut, never kept from unsound weights, the
// oldest deleted first.
#include "exec/core/packed_files.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace peri::exec {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kFloats = 1 << 15;

class PackedFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "packedXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    cache_ = name;
  }
  void TearDown() override { fs::remove_all(cache_); }
  std::shared_ptr<PackedFiles> files(uint64_t limit = 1 << 30) const {
    return std::make_shared<PackedFiles>(cache_ + "/packed", limit);
  }
  // The weights that a step gets: made by `counting` (which counts) or found.
  static Tensor packed(StepStore* store, float first, int* made) {
    auto t = store->get("form", kFloats, [&](float* to) {
      ++*made;
      for (int64_t k = 0; k < kFloats; ++k) to[k] = first + static_cast<float>(k);
    });
    EXPECT_TRUE(t.ok());
    return *t;
  }
  std::vector<fs::path> listed() const {
    std::vector<fs::path> out;
    if (fs::exists(cache_ + "/packed"))
      for (const auto& e : fs::directory_iterator(cache_ + "/packed")) out.push_back(e.path());
    return out;
  }
  std::string cache_;
};

TEST_F(PackedFilesTest, TheSameKeyIsPackedOnce) {
  int made = 0;
  for (int process = 0; process < 2; ++process) {
    StepStore store(files(), "key", [] { return true; });
    const Tensor t = packed(&store, 3, &made);
    EXPECT_EQ(t.as<float>()[0], 3);
    EXPECT_EQ(t.as<float>()[kFloats - 1], 3 + static_cast<float>(kFloats - 1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
    EXPECT_TRUE(store.check().ok());
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(packed_facts(cache_).files, 1);
  StepStore other(files(), "another key", [] { return true; });
  EXPECT_EQ(packed(&other, 5, &made).as<float>()[0], 5);
  EXPECT_EQ(made, 2);
}

TEST_F(PackedFilesTest, UnsoundWeightsAndNoFolderKeepNothing) {
  int made = 0;
  {
    StepStore store(files(), "key", [] { return false; });
    packed(&store, 1, &made);
    StepStore without(nullptr, "key", [] { return true; });
    packed(&without, 1, &made);
    StepStore nowhere(std::make_shared<PackedFiles>("/proc/no/folder", 1 << 30), "key", [] { return true; });
    EXPECT_EQ(packed(&nowhere, 1, &made).as<float>()[0], 1);
  }
  EXPECT_EQ(made, 3);
  EXPECT_TRUE(listed().empty());
}

TEST_F(PackedFilesTest, DamagedFilesAreNotBelieved) {
  int made = 0;
  const auto again = [&] {
    StepStore store(files(), "key", [] { return true; });
    EXPECT_EQ(packed(&store, 7, &made).as<float>()[9], 16);
  };
  again();
  ASSERT_EQ(listed().size(), 1u);
  const fs::path path = listed()[0];
  for (const uintmax_t size : {uintmax_t{0}, uintmax_t{40}, uintmax_t{4096}, fs::file_size(path) - 1}) {
    fs::resize_file(path, size);
    const int before = made;
    again();
    EXPECT_EQ(made, before + 1) << "cut to " << size;
  }
  for (const long at : {0L, 8L, 16L, 24L, 32L, 65L}) {  // magic, version, sizes, key
    FILE* f = fopen(path.c_str(), "r+b");
    ASSERT_NE(f, nullptr);
    fseek(f, at, SEEK_SET);
    fputc(0xee, f);
    fclose(f);
    const int before = made;
    again();
    EXPECT_EQ(made, before + 1) << "byte " << at;
  }
}

TEST_F(PackedFilesTest, AFileCutWhileMappedIsAnError) {
  int made = 0;
  {
    StepStore first(files(), "key", [] { return true; });
    packed(&first, 1, &made);
  }
  StepStore store(files(), "key", [] { return true; });
  const Tensor t = packed(&store, 1, &made);
  ASSERT_EQ(made, 1);
  ASSERT_EQ(truncate(listed()[0].c_str(), 4096), 0);
  EXPECT_EQ(t.as<float>()[kFloats - 1], 0);
  EXPECT_FALSE(store.check().ok());
}

TEST_F(PackedFilesTest, TheOldestGoFirst) {
  int made = 0;
  const uint64_t room = 3 * (kFloats * sizeof(float) + 4096);
  for (int k = 0; k < 5; ++k) {
    StepStore store(files(room), "key " + std::to_string(k), [] { return true; });
    packed(&store, 1, &made);
    for (const fs::path& p : listed()) {  // older by a day each round
      const auto at = fs::last_write_time(p) - std::chrono::hours(24);
      fs::last_write_time(p, at);
    }
  }
  EXPECT_EQ(packed_facts(cache_).files, 3);
  made = 0;
  for (int k = 2; k < 5; ++k) {
    StepStore store(files(room), "key " + std::to_string(k), [] { return true; });
    packed(&store, 1, &made);
  }
  EXPECT_EQ(made, 0);
  EXPECT_GT(clear_packed(cache_), 0);
  EXPECT_FALSE(fs::exists(cache_ + "/packed"));
}

}  // namespace
}  // namespace peri::exec
