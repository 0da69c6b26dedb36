// A target's text reads back to the same value, damage is refused by the member's name, and what is detected is so.
#include "device/target.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "base/thread_pool.hpp"
#include "device/memory_info.hpp"
#include "device/running.hpp"

namespace peri::device {
namespace {

Target recorded() {
  return {Kind::kCpu,
          "A \"chip\" of 2017",
          {"avx2", "avx512"},
          48,
          {{"L1 data", 49152}, {"L1 instruction", 65536}, {"L2 unified", 2 << 20}, {"L3 unified", 36 << 20}},
          {"onednn 3.2.0"}};
}

TEST(Target, TextReadsBack) {
  Target bare;
  bare.kind = Kind::kCuda;
  bare.isas = {"sm_80", "sm_90a"};
  bare.multiprocessors = 84;
  const Target beside = with_gpu(recorded(), bare), two = with_gpu(this_cpu(), bare);
  for (const Target& t : {recorded(), bare, Target{}, this_cpu(), cpu_target(3, {"onednn 1.0.0"}), beside, two}) {
    const auto again = parse_target(target_text(t));
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(*again, t);
    EXPECT_EQ(target_text(*again), target_text(t));
  }
}

TEST(Target, WhatRunsIsAskedForLess) {
  Target all = cpu_target(3, {"onednn 1.0.0"});
  EXPECT_EQ(this_isas(), all.isas);
  all.chip.clear();
  all.caches.clear();
  EXPECT_EQ(running_target(3, {"onednn 1.0.0"}), all);
}

TEST(Target, EveryMemberCounts) {
  const auto differs = [](auto change) {
    Target t = recorded();
    change(&t);
    EXPECT_NE(t, recorded());
    EXPECT_NE(target_text(t), target_text(recorded()));
  };
  differs([](Target* t) { t->kind = Kind::kNull; });
  differs([](Target* t) { t->chip += "x"; });
  differs([](Target* t) { t->isas.pop_back(); });
  differs([](Target* t) { t->threads = 1; });
  differs([](Target* t) { t->caches[1].bytes += 1; });
  differs([](Target* t) { t->caches[1].name += "x"; });
  differs([](Target* t) { t->libraries.clear(); });
  differs([](Target* t) { t->multiprocessors = 132; });
}

TEST(Target, DamageIsRefusedByName) {
  const std::string good = target_text(recorded());
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& says) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto t = parse_target(text);
    ASSERT_FALSE(t.ok()) << text;
    EXPECT_EQ(t.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(t.error().text().find(says), std::string::npos) << t.error().text();
  };
  refused("\"kind\":\"cpu\"", "\"kind\":\"toaster\"", "toaster");
  for (const char* member : {"kind", "chip", "isas", "threads", "caches", "libraries"})
    refused("\"" + std::string(member) + "\":", "\"" + std::string(member) + "s:\":", member);
  refused("\"chip\"", "\"chip\":\"\",\"colour\"", "colour");
  refused("\"avx2\",", "", "avx2");                 // avx512 without it
  refused("\"avx512\"", "\"avx1024\"", "avx1024");  // unknown
  refused("\"avx512\"", "\"avx2\"", "twice");       // once too often
  refused("\"avx512\"", "512", "string");           // no name
  refused("\"threads\":48", "\"threads\":0", "threads");
  refused("\"threads\":48", "\"threads\":1e9", "threads");
  refused("\"threads\":48", "\"threads\":-1", "threads");
  refused("49152", "-49152", "L1 data");
  refused("49152", "\"48K\"", "L1 data");
  refused("\"onednn 3.2.0\"", "\"\"", "libraries");
  refused("\"L1 data\"", "\"L1 instruction\"", "L1 instruction");  // twice
  EXPECT_FALSE(parse_target("").ok());
  EXPECT_FALSE(parse_target("[]").ok());
  EXPECT_FALSE(parse_target(good + good).ok());
  EXPECT_FALSE(parse_target(std::string(1 << 20, ' ') + good).ok()) << "a target is small";
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(parse_target(good.substr(0, cut)).ok()) << cut;
}

TEST(Target, ChangedBytesNeverPassForAnother) {
  const std::string good = target_text(recorded());
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    std::string text = good;
    text[static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())))] = static_cast<char>(rng.below(256));
    const auto t = parse_target(text);
    if (t.ok()) {
      EXPECT_EQ(*parse_target(target_text(*t)), *t) << "seed " << seed;
    }
  }
}

TEST(Target, IsReadFromAFileThatErrorsName) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("peri_target_" + std::to_string(getpid()))).string();
  ASSERT_TRUE(write_file_atomic(path, target_text(recorded())).ok());
  const auto t = read_target(path);
  ASSERT_TRUE(t.ok()) << t.error().text();
  EXPECT_EQ(*t, recorded());
  ASSERT_TRUE(write_file_atomic(path, "{}").ok());
  EXPECT_NE(read_target(path).error().text().find(path), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_EQ(read_target(path).error().kind, ErrorKind::kIo);
}

TEST(Target, SaysWhatFollows) {
  const Target t = recorded();
  EXPECT_TRUE(t.has("") && t.has("avx2") && t.has("avx512") && !t.has("avx512_bf16"));
  EXPECT_EQ(t.cache_bytes(1), 49152) << "data, not instructions";
  EXPECT_EQ(t.cache_bytes(3), 36 << 20);
  EXPECT_EQ(t.cache_bytes(4), 0);
  EXPECT_EQ(t.limited_to(""), t);
  EXPECT_EQ(t.limited_to("avx2").isas, std::vector<std::string>{"avx2"});
  EXPECT_EQ(t.limited_to("avx512"), t);
  EXPECT_EQ(t.limited_to("avx2").caches, t.caches);
}

TEST(Target, DetectsThisMachineOnce) {
  const Target& here = this_cpu();
  EXPECT_EQ(&here, &this_cpu());
  EXPECT_EQ(here.kind, Kind::kCpu);
  EXPECT_EQ(here.threads, usable_cpus());
  __builtin_cpu_init();
  EXPECT_EQ(here.has("avx2"), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(here.has("avx512"), __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
  EXPECT_EQ(here.has("avx512_vnni"), here.has("avx512") && __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(here.has("avx512_bf16"), here.has("avx512_vnni") && __builtin_cpu_supports("avx512bf16"));
  EXPECT_TRUE(!here.has("amx_int8") || here.has("avx512_bf16"));
  Target other = cpu_target(7, {"onednn 9.9.9"});
  EXPECT_EQ(other.threads, 7);
  EXPECT_TRUE(other.libraries == std::vector<std::string>{"onednn 9.9.9"});
  other.threads = here.threads;
  other.libraries = {};
  EXPECT_EQ(other, here);
  const MemoryInfo memory = host_memory();
  EXPECT_GT(memory.total_bytes, int64_t{64} << 20);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
}

}  // namespace
}  // namespace peri::device
