// Counts and sums of times of a model since it was loaded: the source of both statistics and metrics.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "serve/queue/scheduler.hpp"
#include "stats/histogram.hpp"

namespace peri::serve {

struct CountedTime {
  uint64_t count = 0;
  uint64_t ns = 0;
  void add(int64_t took_ns, uint64_t times = 1) {
    count += times;
    ns += static_cast<uint64_t>(took_ns > 0 ? took_ns : 0);
  }
};

enum class FailureReason : uint8_t {
  kRejected,
  kCanceled,
  kTimeout,  // its time was over while it waited
  kBackend,
  kCutRun,  // its time was over while it ran
};
constexpr int kFailureReasons = 5;

struct ModelStatistics {
  int64_t last_inference_ms = 0;  // of the epoch
  uint64_t rows = 0;              // answered
  uint64_t executions = 0;        // that gave answers
  CountedTime success, fail, queue, compute_input, compute_infer, compute_output;
  std::array<uint64_t, kFailureReasons> failures{};
  std::array<uint64_t, kCutReasons> cuts{};
  CountedTime cache_hits, cache_misses;  // of lookups; a miss also takes the time of what is stored
  uint64_t rerun_alone = 0;              // requests of batches that failed as a whole
  struct Batch {
    CountedTime compute_input, compute_infer, compute_output;
  };
  std::map<int64_t, Batch> batches;  // by rows
  // Successful requests by time, of kLatencyBoundsUs.
  static constexpr std::array<int64_t, 12> kLatencyBoundsUs = {50,   100,   250,   500,    1000,   2500,
                                                               5000, 10000, 50000, 100000, 500000, 1000000};
  std::array<uint64_t, 13> latency{};
  // From arrival to answer; of those that ran, in the queue, and in the model's run.
  stats::Histogram request_times, queue_times, infer_times;

  // A request that was answered, by a run or from a cache, so long after its arrival.
  void add_success(int64_t took_ns) {
    success.add(took_ns);
    request_times.add(took_ns);
    const auto* bound = std::lower_bound(kLatencyBoundsUs.begin(), kLatencyBoundsUs.end(), took_ns / 1000);
    ++latency[static_cast<size_t>(bound - kLatencyBoundsUs.begin())];
  }
};

}  // namespace peri::serve
