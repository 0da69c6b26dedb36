// Two sets of samples are told apart where they differ and not where they do not; values as scipy 1.x computes them.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "stats/stats.hpp"

namespace peri::stats {
namespace {

using Samples = std::vector<double>;

TEST(MannWhitney, ValuesOfTheAsymptoticTest) {
  EXPECT_NEAR(mann_whitney_p(Samples{1, 2, 3, 4, 5, 6, 7, 8}, Samples{5, 6, 7, 8, 9, 10, 11, 12}), 0.013313002763816655,
              1e-12);
  EXPECT_NEAR(mann_whitney_p(Samples{1, 1, 2, 2, 3}, Samples{2, 2, 3, 3, 4, 4}), 0.07167312914446339, 1e-12) << "ties";
  EXPECT_NEAR(mann_whitney_p(Samples{19, 22, 16, 29, 24}, Samples{20, 11, 17, 12}), 0.11134688653314041, 1e-12);
  EXPECT_EQ(mann_whitney_p(Samples{3, 3, 3}, Samples{3, 3}), 1) << "all equal";
  EXPECT_EQ(mann_whitney_p(Samples{}, Samples{1, 2}), 1);
}

Samples timings(double median, uint64_t seed) {
  Rng rng(seed);
  Samples out;
  for (int k = 0; k < 300; ++k) out.push_back(median * (1 + 0.02 * std::abs(rng.normal())));
  return out;
}

TEST(RatioInterval, HoldsTheRatioAndExcludesOne) {
  const Interval slower = ratio_interval(timings(1, 1), timings(1.05, 2));
  EXPECT_LT(slower.low, 1.05);
  EXPECT_GT(slower.high, 1.05);
  EXPECT_GT(slower.low, 1.03);
  const Interval same = ratio_interval(timings(2, 3), timings(2, 4));
  EXPECT_LT(same.low, 1);
  EXPECT_GT(same.high, 1);
  EXPECT_LT(mann_whitney_p(timings(1, 1), timings(1.05, 2)), 1e-6);
  EXPECT_GT(mann_whitney_p(timings(2, 3), timings(2, 4)), 0.01);
}

}  // namespace
}  // namespace peri::stats
