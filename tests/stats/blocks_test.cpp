// What is told of processes rests on processes: their medians, drawn whole, and the share of all ways to share them out
// that puts the two sides as far apart.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "stats/stats.hpp"

namespace peri::stats {
namespace {

using Samples = std::vector<double>;

TEST(Blocks, TheCentreIsTheMeanOfTheirMedians) {
  const std::vector<Samples> blocks = {{1, 1, 9}, {3, 3, 3, 3, 3, 3, 3}};
  EXPECT_EQ(block_center(blocks), 2) << "a block counts once, whatever its number of samples";
}

TEST(Blocks, TheIntervalIsThatOfBlocks) {
  std::vector<Samples> blocks;
  for (const double ms : {1.0, 1.2, 1.4, 1.6, 1.8}) blocks.push_back(Samples(1000, ms));
  const Interval i = block_interval(blocks);
  EXPECT_LT(i.low, 1.25) << "a thousand equal samples of a process say nothing of the next one";
  EXPECT_GT(i.high, 1.55);
  EXPECT_GE(i.low, 1.0);
  EXPECT_LE(i.high, 1.8);
  const Interval one = block_interval({blocks.data(), 1});
  EXPECT_EQ(one.low, 1.0);
  EXPECT_EQ(one.high, 1.0);
  std::vector<Samples> twice = blocks;
  for (Samples& s : twice)
    for (double& ms : s) ms *= 2;
  const Interval ratio = block_ratio_interval(blocks, twice);
  EXPECT_LT(ratio.low, 2);
  EXPECT_GT(ratio.high, 2);
  EXPECT_GT(ratio.low, 1.5);
}

TEST(Permutation, CountsTheSplits) {
  EXPECT_DOUBLE_EQ(permutation_p(Samples{1, 2, 3}, Samples{4, 5, 6}), 2.0 / 20);
  EXPECT_DOUBLE_EQ(permutation_p(Samples{1, 2, 3, 4, 5}, Samples{6, 7, 8, 9, 10}), 2.0 / 252);
  EXPECT_DOUBLE_EQ(permutation_p(Samples{1, 4}, Samples{2, 3}), 1) << "equal means";
  EXPECT_DOUBLE_EQ(permutation_p(Samples{1, 3}, Samples{2, 5}), 4.0 / 6) << "away by 1, 3, 0, 0, 3, 1 halves";
  EXPECT_EQ(permutation_p(Samples{}, Samples{1, 2}), 1);
}

TEST(Permutation, ManySplitsAreSampled) {
  Samples low, high, even;
  for (int k = 0; k < 14; ++k) {
    low.push_back(k);
    high.push_back(100 + k);
    even.push_back(k + (k % 2 ? 0.5 : -0.5));
  }
  EXPECT_GT(permutation_p(low, high), 0) << "what was found is one of the splits";
  EXPECT_LT(permutation_p(low, high), 1e-4);
  EXPECT_GT(permutation_p(low, even), 0.5);
}

// Engines that are the same, in processes that differ by 3 %: the samples of one process lie within 0.1 %, so any test
// over samples is sure of a difference.
TEST(Blocks, TheSameEngineAgainIsNotCalledSlower) {
  Rng rng(5);
  const auto process = [&] {
    const double own = 1 + 0.03 * rng.normal();
    Samples out;
    for (int k = 0; k < 50; ++k) out.push_back(own * (1 + 0.001 * rng.normal()));
    return out;
  };
  int told = 0, told_by_samples = 0;
  for (int experiment = 0; experiment < 100; ++experiment) {
    std::vector<Samples> a, b;
    Samples was, is;
    for (int k = 0; k < 5; ++k) {
      a.push_back(process());
      b.push_back(process());
      was.push_back(median(a.back()));
      is.push_back(median(b.back()));
    }
    told += permutation_p(was, is) < 0.01 ? 1 : 0;
    told_by_samples += mann_whitney_p(a[0], b[0]) < 0.01 ? 1 : 0;
  }
  EXPECT_LE(told, 4);
  EXPECT_GT(told_by_samples, 90);
}

}  // namespace
}  // namespace peri::stats
