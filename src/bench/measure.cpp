// The one loop.
#include "bench/measure.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace peri::bench {

Measurement summarize(std::vector<double> samples_ms) {
  Measurement m;
  m.median_ms = stats::median(samples_ms);
  m.mean_ms = stats::mean(samples_ms);
  m.min_ms = *std::min_element(samples_ms.begin(), samples_ms.end());
  m.p90_ms = stats::quantile(samples_ms, 0.9);
  m.p99_ms = stats::quantile(samples_ms, 0.99);
  m.interval_ms = stats::median_interval(samples_ms);
  m.samples_ms = std::move(samples_ms);
  return m;
}

Result<Measurement> measure(const Schedule& schedule, const std::function<Status()>& run,
                            const std::function<bool()>& stop) {
  const auto stopped = [&] { return stop && stop(); };
  int64_t start = now_ns();
  do {
    PERI_TRY(run());
  } while (seconds_since(start) < schedule.warm_up_seconds && !stopped());
  std::vector<double> samples;
  start = now_ns();
  while (static_cast<int64_t>(samples.size()) < schedule.max_samples &&
         (static_cast<int64_t>(samples.size()) < schedule.min_samples || seconds_since(start) < schedule.seconds)) {
    const int64_t before = now_ns();
    PERI_TRY(run());
    samples.push_back(static_cast<double>(now_ns() - before) * 1e-6);
    if (stopped()) break;
  }
  return summarize(std::move(samples));
}

}  // namespace peri::bench
