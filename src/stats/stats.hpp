// Summaries of samples: order statistics and a bootstrap interval of the median.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace peri::stats {

// Quantile q in [0, 1] by linear interpolation between order statistics (Hyndman & Fan type 7). REQUIRES samples.
double quantile(std::span<const double> samples, double q);
inline double median(std::span<const double> samples) { return quantile(samples, 0.5); }
double mean(std::span<const double> samples);

struct Interval {
  double low = 0, high = 0;
};
// Percentile bootstrap interval of the (upper) median at 95 %, computed over all resamples (Efron 1979): the
// probability that a sample is the median of a resample is a binomial sum, so none is drawn. For timings of one
// process: it states how well this run's median is known, not how runs differ.
Interval median_interval(std::span<const double> samples);

// Percentile bootstrap interval at 95 % of median(b) / median(a), each resampled independently, 1000 times, seeded.
// REQUIRES positive samples.
Interval ratio_interval(std::span<const double> a, std::span<const double> b, uint64_t seed = 1);

// Probability of samples at least this different if both come from one distribution: the two-sided rank-sum test of
// Mann and Whitney (1947), normal approximation with tie and continuity corrections; 1 where the test is not defined.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

// Samples in blocks, one per process: samples of one process share its addresses, clock and time, and are no evidence
// of how processes differ. Statistics of blocks resample whole blocks.
using Blocks = std::span<const std::vector<double>>;
// Mean of the blocks' medians. REQUIRES a block, and samples in each.
double block_center(Blocks blocks);
// Percentile bootstrap interval at 95 % of block_center(), with blocks drawn whole, 2000 times, seeded. For a single
// block: its median_interval().
Interval block_interval(Blocks blocks, uint64_t seed = 1);
// The same for block_center(b) / block_center(a), each drawn independently. REQUIRES positive samples.
Interval block_ratio_interval(Blocks a, Blocks b, uint64_t seed = 1);

// Probability of means at least this far apart if each value could equally belong to the other set (Fisher's
// permutation test, two-sided): over all splits where there are at most 200,000, else over as many seeded ones. 1 for
// an empty set.
double permutation_p(std::span<const double> a, std::span<const double> b, uint64_t seed = 1);

}  // namespace peri::stats
