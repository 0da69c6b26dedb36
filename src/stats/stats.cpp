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

namespace {
// Of n values in order, drawn n times with replacement: how likely the (upper) median is one of the first `first`. It
// is where more than half of the draws are among them, each by chance first / n.
double median_among(size_t n, size_t first) {
  if (first >= n) return 1;
  const double count = static_cast<double>(n), p = static_cast<double>(first) / count;
  const size_t least = n / 2 + 1;
  const auto k = static_cast<double>(least);
  // The binomial terms from `least` up; p is close to a half, so a few times sqrt(n) of them matter.
  double term = std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) + k * std::log(p) +
                         (count - k) * std::log1p(-p));
  double sum = 0, most = 0;
  for (size_t drawn = least; drawn <= n && term >= 1e-17 * most; ++drawn) {
    sum += term;
    most = std::max(most, term);
    term *= static_cast<double>(n - drawn) / static_cast<double>(drawn + 1) * p / (1 - p);
  }
  return sum;
}

// The least rank among which the median lies with this probability. Eight standard deviations away from the middle
// hold everything that is asked for.
size_t rank_of(size_t n, double probability) {
  const auto reach = static_cast<size_t>(4 * std::sqrt(static_cast<double>(n))) + 2;
  size_t low = n / 2 > reach ? n / 2 - reach : 0, high = std::min(n - 1, n / 2 + reach);
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (median_among(n, middle + 1) >= probability)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
}  // namespace

Interval median_interval(std::span<const double> samples) {
  PERI_CHECK(!samples.empty());
  std::vector<double> s(samples.begin(), samples.end());
  const auto at = [&](double probability) {
    const auto k = s.begin() + static_cast<std::ptrdiff_t>(rank_of(s.size(), probability));
    std::nth_element(s.begin(), k, s.end());
    return *k;
  };
  return {at(0.025), at(0.975)};
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

double block_center(Blocks blocks) {
  PERI_CHECK(!blocks.empty());
  double sum = 0;
  for (const std::vector<double>& block : blocks) sum += median(block);
  return sum / static_cast<double>(blocks.size());
}

namespace {
constexpr int kBlockResamples = 2000;

std::vector<double> medians_of(Blocks blocks) {
  std::vector<double> out;
  out.reserve(blocks.size());
  for (const std::vector<double>& block : blocks) out.push_back(median(block));
  return out;
}

// The mean of as many values drawn with replacement.
double resampled_mean(std::span<const double> values, Rng* rng) {
  double sum = 0;
  for (size_t k = 0; k < values.size(); ++k)
    sum += values[static_cast<size_t>(rng->below(static_cast<int64_t>(values.size())))];
  return sum / static_cast<double>(values.size());
}
}  // namespace

Interval block_interval(Blocks blocks, uint64_t seed) {
  PERI_CHECK(!blocks.empty());
  if (blocks.size() == 1) return median_interval(blocks[0]);
  Rng rng(seed);
  const std::vector<double> medians = medians_of(blocks);
  std::vector<double> centers;
  for (int k = 0; k < kBlockResamples; ++k) centers.push_back(resampled_mean(medians, &rng));
  return {quantile(centers, 0.025), quantile(centers, 0.975)};
}

Interval block_ratio_interval(Blocks a, Blocks b, uint64_t seed) {
  PERI_CHECK(!a.empty() && !b.empty());
  Rng rng(seed);
  const std::vector<double> before = medians_of(a), after = medians_of(b);
  std::vector<double> ratios;
  for (int k = 0; k < kBlockResamples; ++k) {
    const double below = resampled_mean(before, &rng);
    ratios.push_back(resampled_mean(after, &rng) / below);
  }
  return {quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

namespace {
constexpr int64_t kMaxSplits = 200000;

// Splits of n values into k and the rest, or kMaxSplits + 1 if there are more.
int64_t splits(size_t n, size_t k) {
  double all = 1;
  for (size_t i = 1; i <= k; ++i) all *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return all > static_cast<double>(kMaxSplits) ? kMaxSplits + 1 : std::llround(all);
}
}  // namespace

double permutation_p(std::span<const double> a, std::span<const double> b, uint64_t seed) {
  if (a.empty() || b.empty()) return 1;
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  const double size = static_cast<double>(a.size()), total = mean(all) * static_cast<double>(all.size());
  // Both means follow from the sum of the first set: the further it is from its share, the further they are apart.
  const double share = total * size / static_cast<double>(all.size());
  const auto away = [&](double sum) { return std::fabs(sum - share); };
  const double found = away(mean(a) * size) * (1 - 1e-9);  // sums in another order round otherwise
  int64_t tried = 0, as_far = 0;
  const auto count = [&](double sum) {
    tried += 1;
    as_far += away(sum) >= found ? 1 : 0;
  };
  if (splits(all.size(), a.size()) <= kMaxSplits) {
    std::vector<bool> chosen(all.size(), false);
    std::fill(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(a.size()), true);
    do {
      double sum = 0;
      for (size_t k = 0; k < all.size(); ++k) sum += chosen[k] ? all[k] : 0;
      count(sum);
    } while (std::prev_permutation(chosen.begin(), chosen.end()));
    return static_cast<double>(as_far) / static_cast<double>(tried);
  }
  Rng rng(seed);
  count(mean(a) * size);  // what was found is one of the splits: p is never 0
  for (int64_t k = 0; k < kMaxSplits; ++k) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {  // the beginning of a shuffle
      const auto other = i + static_cast<size_t>(rng.below(static_cast<int64_t>(all.size() - i)));
      std::swap(all[i], all[other]);
      sum += all[i];
    }
    count(sum);
  }
  return static_cast<double>(as_far) / static_cast<double>(tried);
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
