// A slow phase of the machine does not decide between close rivals. The machine and its clock are made up.
#include "tune/rivals.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.hpp"
#include "tune/evidence.hpp"

namespace peri::tune {
namespace {

// Runs take their true time, but in a phase of the clock in which they take 1.7 times as long.
struct Machine {
  std::vector<double> true_ms;
  double slow_from = 0, slow_to = 0;
  double noise = 0;
  Rng rng{7};
  double now = 0;
  std::vector<int> visits = std::vector<int>(true_ms.size(), 0);

  Evidence visit(size_t k) {
    const bool slow = now >= slow_from && now < slow_to;
    Evidence e;
    e.time_ms = true_ms[k] * (slow ? 1.7 : 1) * (1 + noise * rng.uniform());
    e.statistic = kTimeStatistic;
    e.samples = 3;
    e.visits = 1;
    now += 3 * e.time_ms;
    ++visits[k];
    return e;
  }
  // Each is verified, which takes `work` ms, and visited; then rivals are.
  std::vector<Evidence> settle(double work, bool again, bool more = true) {
    std::vector<Evidence> out(true_ms.size());
    for (size_t k = 0; k < out.size(); ++k) {
      now += work;
      add_visit(visit(k), &out[k]);
    }
    if (again) visit_rivals(out, kMaxRivals, [&](size_t k) { return visit(k); }, [&] { return more; });
    return out;
  }
};

size_t fastest(const std::vector<Evidence>& all) { return rivals_among(all)[0]; }

TEST(Rivals, AVisitInASlowPhaseDecidesNothing) {
  for (const bool again : {false, true}) {
    Machine m{{1.0, 1.2, 1.3}, 0, 120};  // the first visit alone lies in it
    const std::vector<Evidence> all = m.settle(100, again);
    EXPECT_EQ(fastest(all), again ? 0u : 1u);
    if (!again) continue;
    EXPECT_DOUBLE_EQ(all[0].time_ms, 1.0);
    EXPECT_LE(all[0].spread, kSameTime) << "two visits told the same";
    EXPECT_EQ(all[0].visits, m.visits[0]);
    EXPECT_EQ(all[0].samples, 3 * m.visits[0]);
    EXPECT_EQ(m.visits[0], 3) << "the first two told two things";
    EXPECT_EQ(m.visits[1], 2);
  }
}

TEST(Rivals, WhatIsFarIsNotVisitedAgainAndVisitsEnd) {
  Machine m{{1.0, 1.05, 2.5, 1.9}};
  (void)m.settle(1, true);
  EXPECT_EQ(m.visits, (std::vector<int>{2, 2, 1, 2}));
  Machine noisy{{1.0, 1.05}, 0, 0, 0.9};
  (void)noisy.settle(1, true);
  for (const int n : noisy.visits) EXPECT_LE(n, kMaxVisits);
  EXPECT_GT(noisy.visits[0] + noisy.visits[1], 4);
  Machine hurried{{1.0, 1.05}, 0, 0, 0.9};
  (void)hurried.settle(1, true, false);
  EXPECT_EQ(hurried.visits, (std::vector<int>{2, 2})) << "no further round is paid for";
  Machine many{std::vector<double>(20, 1.0)};
  std::vector<Evidence> all = many.settle(1, true);
  EXPECT_EQ(std::count(many.visits.begin(), many.visits.end(), 2), static_cast<int64_t>(kMaxRivals));
}

TEST(Rivals, TheWrongIsNoRivalAndAVisitWithoutTimeSaysNothing) {
  std::vector<Evidence> all(3);
  for (Evidence& e : all) {
    e.time_ms = 1;
    e.statistic = kTimeStatistic;
    e.visits = 1;
  }
  all[0].rejected = "wrong";
  EXPECT_EQ(rivals_among(all), (std::vector<size_t>{1, 2}));
  visit_rivals(all, kMaxRivals, [](size_t) { return Evidence(); }, [] { return true; });
  EXPECT_EQ(all[1].time_ms, 1);
  EXPECT_EQ(all[1].visits, 1);
}

TEST(Rivals, SeededPhasesMisleadSeldom) {
  int once = 0, again = 0;
  constexpr int kSeeds = 300;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const bool visits : {false, true}) {
      Rng rng(seed);
      Machine m{{}, 0, 0, 0.02, Rng(seed + 1000)};
      for (int k = 0; k < 5; ++k) m.true_ms.push_back(1 + 0.5 * rng.uniform());
      m.visits.resize(5);
      m.slow_from = 500 * rng.uniform();
      m.slow_to = m.slow_from + 200 * rng.uniform();
      const std::vector<Evidence> all = m.settle(100, visits);
      const double least = *std::min_element(m.true_ms.begin(), m.true_ms.end());
      (visits ? again : once) += m.true_ms[fastest(all)] > 1.05 * least;
    }
  }
  EXPECT_GT(once, kSeeds / 20) << "the phases are long enough to mislead";
  EXPECT_LT(again * 5, once);
}

TEST(Rivals, SamplesThatTellTheSameOrLieFarAreEnough) {
  const auto enough = [](std::vector<double> samples, double best_ms = -1) { return tells_enough(samples, best_ms); };
  EXPECT_FALSE(enough({1.0, 1.0})) << "two may both be slow";
  EXPECT_TRUE(enough({1.02, 1.0, 1.01}));
  EXPECT_FALSE(enough({1.05, 1.0, 1.01}));
  EXPECT_TRUE(enough({1.7, 1.0, 1.9, 1.02, 1.8, 1.01})) << "what is slower says nothing of the least";
  EXPECT_FALSE(enough({1.7, 1.7, 1.7, 1.0})) << "samples of a slow phase, and one after it";
  EXPECT_FALSE(enough({1.0, 1.2, 1.4}, 0.9)) << "a rival";
  EXPECT_TRUE(enough({2.0, 2.4, 2.8}, 0.9));
}

TEST(Rivals, WaitAsFarAsMemoryAllows) {
  constexpr double kMib = 1 << 20, kGib = 1 << 30;
  EXPECT_EQ(most_rivals(kMib, 0), kMaxRivals) << "nothing is known of the memory";
  EXPECT_EQ(most_rivals(kMib, 10 * kMib), kMaxRivals) << "so much is always there";
  EXPECT_EQ(most_rivals(400 * kMib, 100 * kGib), 2u);
  EXPECT_EQ(most_rivals(4 * kGib, 100 * kGib), 2u);
  EXPECT_EQ(most_rivals(4 * kGib, 16 * kGib), 2u);
  EXPECT_EQ(most_rivals(4 * kGib, 14 * kGib), 0u) << "two that wait and the one that is tried";
  EXPECT_EQ(most_rivals(200 * kMib, 1000 * kMib), 3u);
}

}  // namespace
}  // namespace peri::tune
