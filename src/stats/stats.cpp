// Order statistics and the bootstrap.
#include "stats/stats.hpp"

#include <algorithm>
#include <cmath>
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

namespace {
constexpr int kResamples = 1000;

// The (upper) median of as many samples drawn with replacement.
double resampled_median(std::span<const double> samples, Rng* rng, std::vector<double>* scratch) {
  scratch->resize(samples.size());
  for (double& v : *scratch) v = samples[static_cast<size_t>(rng->below(static_cast<int64_t>(samples.size())))];
  const auto middle = scratch->begin() + static_cast<std::ptrdiff_t>(scratch->size() / 2);
  std::nth_element(scratch->begin(), middle, scratch->end());
  return *middle;
}
}  // namespace

Interval median_interval(std::span<const double> samples, uint64_t seed) {
  PERI_CHECK(!samples.empty());
  Rng rng(seed);
  std::vector<double> medians, scratch;
  for (int k = 0; k < kResamples; ++k) medians.push_back(resampled_median(samples, &rng, &scratch));
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

Interval ratio_interval(std::span<const double> a, std::span<const double> b, uint64_t seed) {
  PERI_CHECK(!a.empty() && !b.empty());
  Rng rng(seed);
  std::vector<double> ratios, scratch;
  for (int k = 0; k < kResamples; ++k) {
    const double below = resampled_median(a, &rng, &scratch);
    ratios.push_back(resampled_median(b, &rng, &scratch) / below);
  }
  return {quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all;  // value, whether of a
  for (double v : a) all.emplace_back(v, true);
  for (double v : b) all.emplace_back(v, false);
  std::sort(all.begin(), all.end());
  const double na = static_cast<double>(a.size()), nb = static_cast<double>(b.size()), n = na + nb;
  double ranks = 0, ties = 0;  // sum of the ranks of a; sum of t^3 - t over groups of equals
  for (size_t first = 0, end; first < all.size(); first = end) {
    for (end = first; end < all.size() && all[end].first == all[first].first;) ++end;
    const double t = static_cast<double>(end - first), rank = (static_cast<double>(first + end) + 1) / 2;
    ties += t * t * t - t;
    for (size_t k = first; k < end; ++k) ranks += all[k].second ? rank : 0;
  }
  const double variance = na * nb / 12 * (n + 1 - ties / std::max(1.0, n * (n - 1)));
  if (!(variance > 0)) return 1;
  const double away = std::fabs(ranks - na * (na + 1) / 2 - na * nb / 2);  // of U from its mean
  return std::erfc(std::max(0.0, away - 0.5) / std::sqrt(2 * variance));
}

}  // namespace peri::stats
