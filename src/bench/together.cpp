// Threads that start together, and the best of several tries.
#include "bench/together.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "bench/measure.hpp"

namespace peri::bench {

double seconds_together(ThreadPool& pool, FunctionRef<void(int64_t)> part) {
  std::atomic<int> missing{pool.threads()};
  std::atomic<int64_t> slowest_ns{1};
  pool.run(pool.threads(), [&](int64_t task, int) {
    missing.fetch_sub(1);
    while (missing.load() > 0) sched_yield();
    const int64_t start = now_ns();
    part(task);
    const int64_t took = now_ns() - start;
    for (int64_t most = slowest_ns.load(); most < took && !slowest_ns.compare_exchange_weak(most, took);) {}
  });
  return static_cast<double>(slowest_ns.load()) * 1e-9;
}

double shortest(double seconds, FunctionRef<double()> once) {
  const auto samples = sample({.warm_up_seconds = 0, .seconds = seconds, .min_samples = 1, .max_samples = INT64_MAX},
                              [&]() -> Result<double> { return once(); });
  return *std::min_element(samples->begin(), samples->end());
}

}  // namespace peri::bench
