// Whether one measurement is significantly slower than another: decided from processes, never from the samples of one
// process.
#pragma once

#include "bench/record.hpp"

namespace peri::bench {

// Processes required of each side: with fewer, no split of them is rarer than kChance.
constexpr size_t kMinProcesses = 5;
// Probability of such a difference between processes without a change: above it there is no verdict.
constexpr double kChance = 0.01;

struct Comparison {
  double ratio = 1;  // of after to before, by their processes' medians
  stats::Interval interval;
  double p = 1;         // stats::permutation_p() of the processes' medians
  bool enough = false;  // both sides have kMinProcesses: a verdict can be given
  bool slower = false, faster = false;
  bool regression = false;  // slower by more than the limit, with the whole interval
  std::string verdict() const;
};

// Errors: kUsage where the two measured different work (another model, size or number of threads), or were interrupted.
// `limit`: the ratio that counts as a regression.
Result<Comparison> compare(const Record& before, const Record& after, double limit);

// How to measure so that a verdict can be given.
std::string advice_for_verdict();

// The object of `peri compare --json`, including the names of the files.
std::string comparison_json(const Comparison& comparison, const Record& before, const std::string& before_file,
                            const Record& after, const std::string& after_file, double limit);

}  // namespace peri::bench
