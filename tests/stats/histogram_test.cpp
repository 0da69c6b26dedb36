// The histogram of times: ranges join without gaps, quantiles are right to their width, differences are what came
// since.
#include "stats/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.hpp"

namespace peri::stats {
namespace {

TEST(Histogram, RangesJoinAndAreNarrow) {
  for (int k = 1; k < Histogram::kRanges; ++k) {
    const int64_t begin = Histogram::end_of(k - 1) + 1, end = Histogram::end_of(k);
    ASSERT_LE(begin, end) << k;
    EXPECT_EQ(Histogram::range_of(begin), k);
    EXPECT_EQ(Histogram::range_of(end), k);
    EXPECT_LE(end - begin, begin / 31) << k;
  }
  EXPECT_EQ(Histogram::range_of(-5), 0);
  EXPECT_EQ(Histogram::range_of(INT64_MAX), Histogram::kRanges - 1);
  EXPECT_GT(Histogram::end_of(Histogram::kRanges - 1), 24 * int64_t{3600} * 1000000000);
}

TEST(Histogram, QuantilesOfSamples) {
  Rng rng(7);
  std::vector<int64_t> samples;
  Histogram h;
  for (int k = 0; k < 20000; ++k) {
    samples.push_back(static_cast<int64_t>(1000.0 * std::exp(3 * rng.normal())));
    h.add(samples.back());
  }
  std::sort(samples.begin(), samples.end());
  for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(samples[static_cast<size_t>(std::ceil(q * 20000)) - 1]);
    EXPECT_NEAR(static_cast<double>(h.quantile(q)), exact, exact / 30 + 1) << q;
    EXPECT_GE(static_cast<double>(h.quantile(q)), exact) << q;
  }
  EXPECT_EQ(h.quantile(1), samples.back());
  EXPECT_EQ(h.most(), samples.back());
  EXPECT_EQ(h.up_to(samples.back()), 20000u);
  EXPECT_EQ(Histogram().quantile(0.5), 0);
}

TEST(Histogram, WhatCameSince) {
  Histogram h;
  for (int k = 0; k < 100; ++k) h.add(1000000);
  const Histogram before = h;
  for (int k = 0; k < 10; ++k) h.add(50);
  Histogram since = h;
  since.take(before);
  EXPECT_EQ(since.count(), 10u);
  EXPECT_EQ(since.quantile(0.99), 50);
  EXPECT_DOUBLE_EQ(since.mean(), 50);
  Histogram sum = before;
  sum.add(since);
  EXPECT_EQ(sum.count(), 110u);
  EXPECT_EQ(sum.in(Histogram::range_of(50)), 10u);
}

TEST(Histogram, AStallStandsForWhatItKeptBack) {
  Histogram h;
  for (int k = 0; k < 99; ++k) h.add(10);
  h.add(1000);
  EXPECT_EQ(h.quantile(0.9), 10);
  const Histogram c = h.corrected(10);
  EXPECT_EQ(c.count(), 100u + 99u);  // 990, 980, ... 10
  EXPECT_GT(c.quantile(0.75), 400);
  EXPECT_EQ(h.corrected(0).count(), 100u);
}

}  // namespace
}  // namespace peri::stats
