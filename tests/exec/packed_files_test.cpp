// Packed weights that are kept: found by the same key only, ours and with every byte as it was written, void when cut,
// never kept from unsound weights, the oldest deleted first.
#include "exec/weights/packed_files.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/kept_files.hpp"
#include "exec/weights/shared_packed.hpp"

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
  void TearDown() override {
    fs::remove_all(cache_);
    take_packed_notes();
  }
  // What is told of the kept files, as one text.
  static std::string told() {
    std::string out;
    for (const std::string& note : take_packed_notes()) out += note + "\n";
    return out;
  }
  std::shared_ptr<PackedFiles> files(uint64_t limit = 1 << 30) const {
    return std::make_shared<PackedFiles>(cache_ + "/packed", limit);
  }
  // The weights that a step gets: made, which `*made` counts, or found.
  static Tensor packed(StepStore* store, float first, int* made) {
    auto t = store->get("form", kFloats * int64_t{sizeof(float)}, [&](std::byte* bytes) {
      ++*made;
      auto* const to = reinterpret_cast<float*>(bytes);
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
  EXPECT_EQ(kept_facts(kPackedWeights, cache_).files, 1);
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

TEST_F(PackedFilesTest, DamagedFilesAreNamedAndReplaced) {
  int made = 0;
  const auto again = [&] {
    StepStore store(files(), "key", [] { return true; });
    const Tensor t = packed(&store, 7, &made);
    for (int64_t k = 0; k < kFloats; ++k) ASSERT_EQ(t.as<float>()[k], 7 + static_cast<float>(k));
  };
  again();
  ASSERT_EQ(listed().size(), 1u);
  const fs::path path = listed()[0];
  const uintmax_t whole = fs::file_size(path);
  const auto expect_replaced = [&](const std::string& what) {
    const int before = made;
    again();
    EXPECT_EQ(made, before + 1) << what;
    EXPECT_NE(told().find(path.string() + " are packed again"), std::string::npos) << what;
    again();
    EXPECT_EQ(made, before + 1) << what << ": a good file took its place";
    EXPECT_EQ(told(), "");
  };
  for (const uintmax_t size : {uintmax_t{0}, uintmax_t{40}, uintmax_t{4096}, whole - 1, whole + 1, whole + 4096}) {
    fs::resize_file(path, size);
    expect_replaced("of size " + std::to_string(size));
  }
  std::vector<long> places = {65, 4000, 4096, 4097, static_cast<long>(whole / 2), static_cast<long>(whole - 1)};
  for (long at = 0; at < 64; at += 3) places.push_back(at);  // magic, version, sizes, checksum, unused
  for (const long at : places) {
    FILE* f = fopen(path.c_str(), "r+b");
    ASSERT_NE(f, nullptr);
    fseek(f, at, SEEK_SET);
    const int byte = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(byte ^ 4, f);
    fclose(f);
    expect_replaced("byte " + std::to_string(at));
  }
}

TEST_F(PackedFilesTest, WhatOthersMayWriteToIsNotTaken) {
  int made = 0;
  const auto again = [&] {
    StepStore store(files(), "key", [] { return true; });
    EXPECT_EQ(packed(&store, 7, &made).as<float>()[9], 16);
  };
  const mode_t before = umask(0);
  again();
  umask(before);
  again();
  EXPECT_EQ(made, 1) << "files are ours alone whatever the umask";
  const fs::path path = listed()[0];
  ASSERT_EQ(chmod(path.c_str(), 0664), 0);
  again();
  EXPECT_EQ(made, 2);
  EXPECT_NE(told().find(path.string() + " are packed again: others may write to it (mode 664)"), std::string::npos);
  again();
  EXPECT_EQ(made, 2) << "replaced by one that is ours";
  const std::string folder = cache_ + "/packed";
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  again();
  EXPECT_EQ(made, 3);
  EXPECT_NE(told().find("packed weights in " + folder + " are not used"), std::string::npos);
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  again();
  EXPECT_EQ(made, 3) << "nobody can take our files away";
  if (geteuid() != 0) return;  // only root can give files away
  ASSERT_EQ(chown(path.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  again();
  EXPECT_EQ(made, 4);
  EXPECT_NE(told().find("it belongs to user 12345"), std::string::npos);
  ASSERT_EQ(chown(folder.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  again();
  EXPECT_EQ(made, 5);
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

// Twenty steps that pack one weight in the same way: what waits to be written is in memory once.
TEST_F(PackedFilesTest, WhatWaitsToBeWrittenIsNotHeldTwice) {
  constexpr int64_t kBytes = 4 << 20;
  const auto share = std::make_shared<runtime::StepShare>();
  const auto made = [](std::byte* to) { std::fill_n(to, kBytes, std::byte{7}); };
  const auto held = [] {
    const auto info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  {
    const auto all = files();
    const int64_t before = held();
    std::vector<Tensor> packed;
    for (int k = 0; k < 20; ++k) {
      SharedPacked step(share, std::make_shared<StepStore>(all, "key " + std::to_string(k), [] { return true; }),
                        kBytes);
      auto t = step.get("form", kBytes, made);
      ASSERT_TRUE(t.ok());
      packed.push_back(*t);
    }
    EXPECT_LT(held() - before, 3 * kBytes);
  }
  EXPECT_EQ(listed().size(), 20u);
  int again = 0;
  for (int k = 0; k < 20; ++k) {
    SharedPacked step(share, std::make_shared<StepStore>(files(), "key " + std::to_string(k), [] { return true; }),
                      kBytes);
    const auto t = step.get("form", kBytes, [&](std::byte* to) {
      ++again;
      made(to);
    });
    ASSERT_TRUE(t.ok());
    EXPECT_TRUE(std::all_of(t->bytes().begin(), t->bytes().end(), [](std::byte b) { return b == std::byte{7}; }));
  }
  EXPECT_EQ(again, 0);
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
  EXPECT_EQ(kept_facts(kPackedWeights, cache_).files, 3);
  made = 0;
  for (int k = 2; k < 5; ++k) {
    StepStore store(files(room), "key " + std::to_string(k), [] { return true; });
    packed(&store, 1, &made);
  }
  EXPECT_EQ(made, 0);
  EXPECT_GT(clear_kept(kPackedWeights, cache_).value(), 0);
  EXPECT_FALSE(fs::exists(cache_ + "/packed"));
}

}  // namespace
}  // namespace peri::exec
