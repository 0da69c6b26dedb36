// The timing loop: warm-up, samples until time or number is reached, and their summary. Everything that times a run
// uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "stats/stats.hpp"

namespace peri::bench {

struct Schedule {
  double warm_up_seconds = 0.3;  // at least one run
  double seconds = 3;            // of samples
  int64_t min_samples = 5;       // even if the time is over
  int64_t max_samples = 100000;
};

struct Measurement {
  std::vector<double> samples_ms;  // in order of time
  double median_ms = 0, mean_ms = 0, min_ms = 0, p90_ms = 0, p99_ms = 0;
  stats::Interval interval_ms;  // of the median, 95 %
};

// Calls `run` by the schedule. Stops early with what it has when `stop` says so. An error of `run` ends it.
Result<Measurement> measure(const Schedule& schedule, const std::function<Status()>& run,
                            const std::function<bool()>& stop = {});
Measurement summarize(std::vector<double> samples_ms);

}  // namespace peri::bench
