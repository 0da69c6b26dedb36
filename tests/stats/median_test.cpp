// The interval of a median is that of all resamples, and takes no drawing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "stats/stats.hpp"

namespace peri::stats {
namespace {

using Samples = std::vector<double>;

// By writing out all n^n resamples.
Interval by_all_resamples(Samples s) {
  std::sort(s.begin(), s.end());
  const size_t n = s.size();
  size_t all = 1;
  for (size_t k = 0; k < n; ++k) all *= n;
  std::vector<double> medians;
  for (size_t code = 0; code < all; ++code) {
    Samples drawn;
    for (size_t rest = code, k = 0; k < n; ++k, rest /= n) drawn.push_back(s[rest % n]);
    std::sort(drawn.begin(), drawn.end());
    medians.push_back(drawn[n / 2]);
  }
  std::sort(medians.begin(), medians.end());
  const auto at = [&](double share) {  // the least value with so many of them at or below it
    return medians[static_cast<size_t>(std::ceil(share * static_cast<double>(all))) - 1];
  };
  return {at(0.025), at(0.975)};
}

TEST(MedianInterval, IsThatOfAllResamples) {
  for (const Samples& s : {Samples{4}, Samples{1, 2}, Samples{5, 1, 3}, Samples{1, 2, 4, 8}, Samples{9, 2, 7, 1, 30},
                           Samples{3, 3, 1, 8, 2, 11}, Samples{10, 20, 31, 43, 56, 70, 85}}) {
    const Interval made = median_interval(s), wanted = by_all_resamples(s);
    EXPECT_EQ(made.low, wanted.low) << s.size();
    EXPECT_EQ(made.high, wanted.high) << s.size();
  }
}

// The width of ranks at n samples is that of a normal distribution with deviation sqrt(n) / 2.
TEST(MedianInterval, OfAMillionSamples) {
  Samples s(1000001);
  for (size_t k = 0; k < s.size(); ++k) s[(k * 7919) % s.size()] = static_cast<double>(k);
  const Interval made = median_interval(s);
  EXPECT_NEAR(made.low, 500000 - 980, 3);
  EXPECT_NEAR(made.high, 500000 + 980, 3);
}

}  // namespace
}  // namespace peri::stats
