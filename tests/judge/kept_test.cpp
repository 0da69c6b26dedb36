// A verdict that is kept says the same when it is read back, and nothing but a right, whole verdict is ever read.
#include "judge/kept.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/clock.hpp"
#include "base/rng.hpp"
#include "judge/judge_key.hpp"
#include "tune/judge_key.hpp"

namespace peri::judge {
namespace {

SizeEvidence size(const DimBinding& dims) {
  SizeEvidence e;
  e.sizes = dims;
  e.steps_judged = 12;
  e.steps_by_definition = 2;
  e.positions = 4096;
  e.worst_step = 0.37251;
  e.same_bits = true;
  e.whole = 0.0625;
  e.followed = 53;
  e.integers = 1;
  e.others = "'gather': an index is out of range";
  return e;
}

EngineVerdict right() {
  EngineVerdict v;
  v.sizes = {size({{"batch", 1}, {"sequence", 128}}), size({{"batch", 2}, {"sequence", 145}})};
  v.sizes[1].whole = -1;
  v.sizes[1].whole_because = "the model takes more than 1 GFLOP at this size";
  v.seconds = 6.125;
  v.since = wall_seconds() - 60;
  return v;
}

Result<EngineVerdict> read(const std::string& text) {
  const auto json = parse_json(text);
  return json.ok() ? read_verdict(*json) : Result<EngineVerdict>(json.error());
}

TEST(KeptVerdict, SaysTheSameWhenItIsReadBack) {
  EngineVerdict v = right();
  SizeEvidence limited;
  limited.sizes = {{"batch", 7}, {"sequence", 9}};
  limited.limit = "Concat: \"sizes\" differ";
  v.sizes.push_back(limited);
  v.incomplete = "not run at batch=9";
  const auto back = read(verdict_text(v));
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_TRUE(back->right());
  EXPECT_TRUE(back->earlier);
  EXPECT_EQ(back->since, v.since);
  EXPECT_EQ(back->seconds, v.seconds);
  EXPECT_EQ(back->incomplete, v.incomplete);
  ASSERT_EQ(back->sizes.size(), 3u);
  for (size_t k = 0; k < 3; ++k) {
    const SizeEvidence &a = back->sizes[k], &b = v.sizes[k];
    EXPECT_EQ(a.sizes, b.sizes);
    EXPECT_EQ(a.steps_judged, b.steps_judged);
    EXPECT_EQ(a.steps_by_definition, b.steps_by_definition);
    EXPECT_EQ(a.positions, b.positions);
    EXPECT_EQ(a.worst_step, b.worst_step);
    EXPECT_EQ(a.same_bits, b.same_bits);
    EXPECT_EQ(a.whole, b.whole);
    EXPECT_EQ(a.followed, b.followed);
    EXPECT_EQ(a.whole_because, b.whole_because);
    EXPECT_EQ(a.limit, b.limit);
    EXPECT_EQ(a.integers, b.integers);
    EXPECT_EQ(a.others, b.others);
  }
}

TEST(KeptVerdict, OnlyARightAndWholeOneIsWorthIt) {
  EXPECT_TRUE(is_lasting(right()));
  const std::function<void(EngineVerdict*)> spoilt[] = {
      [](EngineVerdict* v) { v->fault = Fault{}; },
      [](EngineVerdict* v) { v->wrong = "output 'y'"; },
      [](EngineVerdict* v) { v->lasting = false; },
      [](EngineVerdict* v) { v->sizes.clear(); },
      [](EngineVerdict* v) { v->sizes[0].limit = "no inputs could be made"; },
      [](EngineVerdict* v) { v->sizes[1].no_memory = true; },
      [](EngineVerdict* v) { v->sizes[1].same_bits = false; },
      [](EngineVerdict* v) { v->sizes[0].worst_step = 1.01; },
      [](EngineVerdict* v) { v->sizes[0].worst_step = NAN; },
      [](EngineVerdict* v) { v->sizes[0].whole = 1.5; },
      [](EngineVerdict* v) { v->sizes[0].whole = -0.5; },
      [](EngineVerdict* v) { v->sizes[0].positions = -1; },
      [](EngineVerdict* v) { v->since = 0; },
      [](EngineVerdict* v) { v->seconds = INFINITY; },
  };
  for (size_t k = 0; k < std::size(spoilt); ++k) {
    EngineVerdict v = right();
    spoilt[k](&v);
    EXPECT_FALSE(is_lasting(v)) << k;
  }
}

TEST(KeptVerdict, WhatNobodyWroteIsNone) {
  const std::string good = verdict_text(right());
  ASSERT_TRUE(read(good).ok());
  const std::pair<const char*, const char*> changes[] = {
      {"\"same_bits\":true", "\"same_bits\":false"},
      {"\"same_bits\":true", "\"same_bits\":1"},
      {"\"worst_step\":0.37251", "\"worst_step\":1.37251"},
      {"\"worst_step\":0.37251", "\"worst_step\":-0.1"},
      {"\"worst_step\":0.37251,", ""},
      {"\"whole\":0.0625", "\"whole\":\"0.0625\""},
      {"\"integers\":1", "\"integers\":2"},
      {"\"positions\":4096", "\"positions\":-4096"},
      {"\"limit\":\"\"", "\"limit\":\"the model cannot run\""},
      {"[\"batch\",1]", "[\"batch\",-1]"},
      {"[\"batch\",1]", "[\"batch\"]"},
      {"[\"sequence\",128]", "[\"batch\",128]"},
      {"\"since\":", "\"since\":9"},  // a time to come
      {"\"since\":", "\"since\":-"},
      {"\"seconds\":6.125", "\"seconds\":-6"},
      {"\"sizes\":", "\"sizes of\":"},
  };
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, std::string_view(from).size(), to);
    EXPECT_FALSE(read(bad).ok()) << bad;
  }
  EXPECT_FALSE(read("{}").ok());
  EXPECT_FALSE(read("[]").ok());
}

// Bytes at random: what is read is as lasting as what is written, and nothing ends the process.
TEST(KeptVerdict, SpoiltBytesAreNeverAWrongOne) {
  const std::string good = verdict_text(right());
  Rng rng(23);
  int read_back = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bad = good;
    for (int64_t n = 1 + rng.below(3); n > 0; --n) {
      const auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())));
      if (rng.below(4) == 0)
        bad.erase(at, static_cast<size_t>(1 + rng.below(12)));
      else
        bad[at] = static_cast<char>(bad[at] ^ (1 << rng.below(7)));
      if (bad.empty()) bad = "0";
    }
    const auto v = read(bad);
    (v.ok() ? read_back : refused) += 1;
    if (v.ok()) EXPECT_TRUE(is_lasting(*v) && v->earlier) << bad;
  }
  EXPECT_GT(read_back, 100);
  EXPECT_GT(refused, 1000);
}

TEST(KeptVerdict, ItsJudgeIsNamedByItsSources) {
  EXPECT_EQ(judge_key().size(), 16u);
  EXPECT_EQ(tune::judge_key("cpu").size(), 16u);
  EXPECT_NE(judge_key(), tune::judge_key("cpu"));
}

}  // namespace
}  // namespace peri::judge
