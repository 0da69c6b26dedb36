// Scores and probabilities of attention with their error radii.
#include "ops/reference/attend.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/elements.hpp"

namespace peri::ops {

Scores scores_of(int64_t rows, int64_t keys, int64_t depth, const Side& q, const Side& k, double scale, double u) {
  Scores s{rows, keys, std::vector<double>(static_cast<size_t>(rows * keys)),
           std::vector<double>(static_cast<size_t>(rows * keys))};
  dense_product(rows, keys, depth, q, {k.value, k.radius, k.column_step, k.row_step}, u, depth + 1, s.value.data(),
                s.radius.data(), keys);
  for (size_t n = 0; n < s.value.size(); ++n) {
    s.value[n] *= scale;
    s.radius[n] = std::fabs(scale) * s.radius[n] + 4 * u * std::fabs(s.value[n]);
  }
  return s;
}

void cap_scores(Scores& s, double cap, double u) {
  for (size_t n = 0; n < s.value.size(); ++n) {
    s.value[n] = cap * std::tanh(s.value[n] / cap);  // moves less than its argument does
    s.radius[n] += 8 * u * std::fabs(s.value[n]);
  }
}

void add_to_score(Scores& s, int64_t row, int64_t key, double addend, double r, double u) {
  const size_t n = static_cast<size_t>(row * s.keys + key);
  s.radius[n] += r + 4 * u * (std::fabs(s.value[n]) + std::fabs(addend));
  s.value[n] += addend;
  if (!std::isfinite(s.value[n])) s.radius[n] = 0;
}

namespace {
double bounded_exp(double x) { return std::exp(std::min(x, 600.0)); }

// Radii of one row of probabilities from those of its scores: the probability of a key is largest when its own score is
// as high and all others are as low as possible.
void spread(const double* score, const double* p, double* radius, int64_t keys, double top, double u) {
  double high_sum = 0, low_sum = 0;
  std::vector<double> high(static_cast<size_t>(keys)), low(high.size());
  for (int64_t j = 0; j < keys; ++j) {
    const size_t n = static_cast<size_t>(j);
    const double shifted = score[j] - top, r = std::isinf(shifted) ? 0 : radius[j] + 4 * u * std::fabs(shifted);
    high_sum += high[n] = bounded_exp(shifted + r);
    low_sum += low[n] = bounded_exp(shifted - r);
  }
  for (int64_t j = 0; j < keys; ++j) {
    const size_t n = static_cast<size_t>(j);
    const double most = high[n] / (high[n] + std::max(low_sum - low[n], 0.0));
    const double below = low[n] + std::max(high_sum - high[n], 0.0), least = below > 0 ? low[n] / below : 0;
    const double moved = high[n] > 0 ? std::max({most - p[j], p[j] - least, 0.0}) : 0;
    radius[j] = std::min(moved, 1.0) + sum_radius(u, keys, p[j]) + 8 * u * p[j];
  }
}
}  // namespace

void soften(Scores& s, double u, DType stored, bool zero_hidden) {
  std::vector<double> score(static_cast<size_t>(s.keys));
  for (int64_t i = 0; i < s.rows; ++i) {
    double* p = s.value.data() + i * s.keys;
    double* r = s.radius.data() + i * s.keys;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    bool broken = false;
    for (int64_t j = 0; j < s.keys; ++j) {
      top = std::max(top, p[j]);
      broken |= std::isnan(p[j]) || p[j] == std::numeric_limits<double>::infinity();
    }
    if (broken || std::isinf(top)) {
      std::fill(p, p + s.keys, !broken && zero_hidden ? 0.0 : std::numeric_limits<double>::quiet_NaN());
      std::fill(r, r + s.keys, 0.0);
      continue;
    }
    std::copy(p, p + s.keys, score.begin());
    for (int64_t j = 0; j < s.keys; ++j) sum += p[j] = std::exp(score[static_cast<size_t>(j)] - top);
    for (int64_t j = 0; j < s.keys; ++j) p[j] /= sum;
    if (u > 0) spread(score.data(), p, r, s.keys, top, u);
    for (int64_t j = 0; stored != DType::kInvalid && j < s.keys; ++j)
      r[j] += unit_roundoff(stored) * (p[j] + smallest_normal(stored));
  }
}

}  // namespace peri::ops
