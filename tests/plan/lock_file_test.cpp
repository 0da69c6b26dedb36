// Locks survive their text, hand out choices in order, and name what is wrong with them.
#include "plan/lock_file.hpp"

#include <gtest/gtest.h>

namespace peri::plan {
namespace {

Lock sample() {
  Lock lock;
  lock.model = {"m", "0123456789abcdef", "fedcba9876543210"};
  lock.builder = "peri 1";
  lock.backend = "cpu";
  lock.provider = "peri";
  lock.dims = {{"batch", 3}, {"sequence", 128}};
  lock.fixed = {{"rate", "16000"}};
  lock.disabled_passes = {"fuse_gelu"};
  lock.dtype = "bf16";
  lock.regions = {{"a", "k1", "gemm_f32@1 {}", ",0231->0231", "avx2", ""},
                  {"b", "k2", "reference", "", "", ""},
                  {"c", "k1", "matmul@1 {x=\"1\"}", "->", "avx512", "onednn 3.2.0"}};
  lock.conversions = {{"relayout a", "k3", "relayout@1 {}", "->0231", "", ""}};
  return lock;
}

TEST(LockFile, SurvivesItsText) {
  const std::string text = lock_text(sample());
  const Result<Lock> back = parse_lock(text);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(lock_text(*back), text);
  EXPECT_EQ(back->fixed, sample().fixed);
  EXPECT_EQ(back->dtype, "bf16");
  EXPECT_EQ(back->model.name, "m");
  EXPECT_EQ(back->model.identity, "0123456789abcdef");
  EXPECT_EQ(back->regions[0].layouts, ",0231->0231");
  EXPECT_EQ(back->regions[2].library, "onednn 3.2.0");
  EXPECT_EQ(isas_of(*back), (std::vector<std::string>{"avx2", "avx512"}));
}

TEST(LockFile, OfAnOlderBuildNamesNoModel) {
  Lock older = sample();
  older.model = {};
  const std::string text = lock_text(older);
  EXPECT_EQ(text.find("identity"), std::string::npos);
  const Result<Lock> back = parse_lock(text);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->model.identity, "");
}

TEST(LockFile, TakesTheFallbackByTheNameThatOlderBuildsGaveIt) {
  Lock lock = sample();
  lock.regions[0].fallback = "matmul@1 {}";
  lock.regions[0].fallback_isa = "avx";
  std::string text = lock_text(lock);
  for (size_t at = 0; (at = text.find("fallback", at)) != std::string::npos;) text.replace(at, 8, "elsewhere");
  const Result<Lock> back = parse_lock(text);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->regions[0].fallback, "matmul@1 {}");
  EXPECT_EQ(back->regions[0].fallback_isa, "avx");
  EXPECT_EQ(lock_text(*back), lock_text(lock));
}

TEST(LockFile, EqualRegionsGetTheirOwnChoicesInOrder) {
  const Lock lock = sample();
  LockReader reader(&lock);
  EXPECT_EQ((*reader.region("k1", "a"))->candidate, "gemm_f32@1 {}");
  EXPECT_EQ((*reader.region("k2", "b"))->candidate, "reference");
  EXPECT_FALSE(reader.all_used().ok());
  EXPECT_EQ((*reader.region("k1", "c"))->candidate, "matmul@1 {x=\"1\"}");
  EXPECT_TRUE(reader.all_used().ok());
  const auto none = reader.region("k1", "d");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(none.error().node, "d");
  EXPECT_TRUE(reader.conversion("k3", "a").ok());
  EXPECT_TRUE(reader.conversion("k3", "a").ok());
  EXPECT_FALSE(reader.conversion("k4", "a").ok());
}

TEST(LockFile, NamesTheFieldThatIsWrong) {
  const std::string good = lock_text(sample());
  for (const char* field : {"peri_lock", "builder", "backend", "provider", "dims", "disabled_passes", "regions",
                            "conversions", "candidate", "layouts", "requires_isa"}) {
    std::string bad = good;
    const size_t at = bad.find("\"" + std::string(field) + "\"");
    ASSERT_NE(at, std::string::npos) << field;
    bad[at + 1] = '_';
    const auto lock = parse_lock(bad);
    ASSERT_FALSE(lock.ok()) << field;
    EXPECT_NE(lock.error().text().find(field), std::string::npos) << lock.error().text();
  }
  EXPECT_FALSE(parse_lock("").ok());
  EXPECT_FALSE(parse_lock("[]").ok());
  std::string later = good;
  later.replace(later.find("\"peri_lock\": 1"), 14, "\"peri_lock\": 2");
  ASSERT_FALSE(parse_lock(later).ok());
  EXPECT_EQ(parse_lock(later).error().kind, ErrorKind::kRefused);
}

TEST(LockFile, ACutFileSaysWhatToDo) {
  const std::string whole = lock_text(sample());
  ASSERT_TRUE(parse_lock(whole).ok());
  const auto cut = parse_lock(std::string_view(whole).substr(0, whole.size() / 2));
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().text().find("cut or damaged: build with --lock again"), std::string::npos)
      << cut.error().text();
}

}  // namespace
}  // namespace peri::plan
