// The timing loop: warm-up, samples until time or number is reached, and their summary. What reads the clock for a
// sample differs: time_runs() here, graph_clock.hpp for work on devices, together.hpp for threads that start together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/thread_pool.hpp"
#include "stats/stats.hpp"

namespace peri::bench {

struct Schedule {
  double warm_up_seconds = 0.3;  // at least one run
  double seconds = 3;            // of samples
  int64_t min_samples = 5;       // even after that time
  int64_t max_samples = 100000;
  std::function<void()> before = {};  // called before each sample, and not timed
};

// The loop itself: the values that `batch` appends, without those of the warm-up. Returns the samples so far when
// `stop` returns true. An error of `batch` ends it. Time and number are looked at between batches. `wall_s`, if not
// null, receives the time from the begin of the first sample to the end of the last one, including what is between
// them.
Result<std::vector<double>> sample_batches(const Schedule& schedule, FunctionRef<Status(std::vector<double>*)> batch,
                                           const std::function<bool()>& stop = {}, double* wall_s = nullptr);
// The same for batches of one value.
Result<std::vector<double>> sample(const Schedule& schedule, FunctionRef<Result<double>()> once,
                                   const std::function<bool()>& stop = {}, double* wall_s = nullptr);

// Those of one of several things that each batch times in the same order: samples `which`, `which + of`, ...
std::vector<double> every(std::span<const double> samples, size_t of, size_t which);

struct Measurement {
  std::vector<double> samples_ms;  // in temporal order
  double wall_s = 0;               // of all samples, as from sample()
  double median_ms = 0, mean_ms = 0, min_ms = 0, p90_ms = 0, p99_ms = 0;
  stats::Interval interval_ms;  // of the median, 95 %
};

// Times of `run` in ms, by the same loop.
Result<std::vector<double>> time_runs(const Schedule& schedule, FunctionRef<Status()> run,
                                      const std::function<bool()>& stop = {}, double* wall_s = nullptr);
Result<Measurement> measure(const Schedule& schedule, FunctionRef<Status()> run,
                            const std::function<bool()>& stop = {});
Measurement summarize(std::vector<double> samples_ms);

// Why the median of the samples does not represent the time of a run: the medians of their first and second half, or
// the ends of its interval, differ by more than the share `tolerance` of it. Empty: it does, or there are fewer than
// kMinToTell samples.
constexpr size_t kMinToTell = 10;
std::string why_unstable(const Measurement& measurement, double tolerance);

}  // namespace peri::bench
