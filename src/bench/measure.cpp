// The timing loop.
#include "bench/measure.hpp"

#include <algorithm>
#include <cmath>

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

Result<std::vector<double>> sample_batches(const Schedule& schedule, FunctionRef<Status(std::vector<double>*)> batch,
                                           const std::function<bool()>& stop, double* wall_s) {
  const auto stopped = [&] { return stop && stop(); };
  std::vector<double> samples;
  int64_t start = now_ns();
  do {
    samples.clear();
    PERI_TRY(batch(&samples));
  } while (seconds_since(start) < schedule.warm_up_seconds && !stopped());
  samples.clear();
  start = now_ns();
  while (std::ssize(samples) < schedule.max_samples &&
         (std::ssize(samples) < schedule.min_samples || seconds_since(start) < schedule.seconds)) {
    if (schedule.before) schedule.before();
    PERI_TRY(batch(&samples));
    if (wall_s) *wall_s = seconds_since(start);
    if (stopped()) break;
  }
  return samples;
}

std::vector<double> every(std::span<const double> samples, size_t of, size_t which) {
  std::vector<double> out;
  for (size_t k = which; k < samples.size(); k += of) out.push_back(samples[k]);
  return out;
}

Result<std::vector<double>> sample(const Schedule& schedule, FunctionRef<Result<double>()> once,
                                   const std::function<bool()>& stop, double* wall_s) {
  return sample_batches(
      schedule,
      [&](std::vector<double>* into) -> Status {
        PERI_ASSIGN(const double value, once());
        into->push_back(value);
        return Ok{};
      },
      stop, wall_s);
}

Result<std::vector<double>> time_runs(const Schedule& schedule, FunctionRef<Status()> run,
                                      const std::function<bool()>& stop, double* wall_s) {
  return sample(
      schedule,
      [&]() -> Result<double> {
        const int64_t before = now_ns();
        PERI_TRY(run());
        return static_cast<double>(now_ns() - before) * 1e-6;
      },
      stop, wall_s);
}

Result<Measurement> measure(const Schedule& schedule, FunctionRef<Status()> run, const std::function<bool()>& stop) {
  double wall_s = 0;
  PERI_ASSIGN(std::vector<double> samples, time_runs(schedule, run, stop, &wall_s));
  Measurement m = summarize(std::move(samples));
  m.wall_s = wall_s;
  return m;
}

std::string why_unstable(const Measurement& m, double tolerance) {
  const size_t n = m.samples_ms.size();
  if (n < kMinToTell) return "";
  const std::span<const double> all(m.samples_ms);
  const double first = stats::median(all.first(n / 2)), second = stats::median(all.last(n / 2));
  const double most = tolerance * m.median_ms;
  if (std::abs(second - first) > most)
    return format("the first half of the samples has the median %.4g ms, the second %.4g ms", first, second);
  if (m.interval_ms.high - m.interval_ms.low > most)
    return format("the median is only known to lie between %.4g and %.4g ms", m.interval_ms.low, m.interval_ms.high);
  return "";
}

}  // namespace peri::bench
