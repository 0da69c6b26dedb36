// Order statistics and the bootstrap.
#include "stats/stats.hpp"

#include <algorithm>
#include <vector>

#include "base/result.hpp"
#include "base/rng.hpp"

namespace peri::stats {

double quantile(std::span<const double> samples, double q) {
  PERI_CHECK(!samples.empty());
  std::vector<double> s(samples.begin(), samples.end());
  std::sort(s.begin(), s.end());
  const double at = q * static_cast<double>(s.size() - 1);
  const size_t k = static_cast<size_t>(at);
  if (k + 1 >= s.size()) return s.back();
  return s[k] + (at - static_cast<double>(k)) * (s[k + 1] - s[k]);
}

double mean(std::span<const double> samples) {
  PERI_CHECK(!samples.empty());
  double sum = 0;
  for (double v : samples) sum += v;
  return sum / static_cast<double>(samples.size());
}

Interval median_interval(std::span<const double> samples, uint64_t seed) {
  PERI_CHECK(!samples.empty());
  constexpr int kResamples = 1000;
  Rng rng(seed);
  std::vector<double> medians, resample(samples.size());
  for (int k = 0; k < kResamples; ++k) {
    for (double& v : resample) v = samples[static_cast<size_t>(rng.below(static_cast<int64_t>(samples.size())))];
    const auto middle = resample.begin() + static_cast<std::ptrdiff_t>(resample.size() / 2);
    std::nth_element(resample.begin(), middle, resample.end());
    medians.push_back(*middle);
  }
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

}  // namespace peri::stats
