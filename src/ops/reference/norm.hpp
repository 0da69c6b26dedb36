// Mean, deviation and their error radii, shared by the normalisation ops.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/entry.hpp"

namespace peri::ops {

// Attributes of ONNX are floats, so their defaults are too.
constexpr double kDefaultEpsilon = 1e-5F;

// Round-off of mean and deviation: never finer than that of the type that stash_type names, which a definition may set
// narrower than that of x. 0 stays 0.
inline double stage_roundoff(const RefCall& call) {
  if (call.u == 0 || !call.node.has("stash_type"))
    return call.u == 0 ? 0 : std::max(call.u, unit_roundoff(DType::kF32));
  const int64_t stash = call.node.i("stash_type");
  const DType t = stash == 10 ? DType::kF16 : stash == 11 ? DType::kF64 : stash == 16 ? DType::kBF16 : DType::kF32;
  return std::max(call.u, unit_roundoff(t));
}

// A number with its error radius.
struct Near {
  double v = 0, r = 0;
};

// 1 / sqrt(x + epsilon) for x >= 0 with a radius, computed at round-off u.
inline Near inverse_root(Near x, double epsilon, double u) {
  const double y = 1 / std::sqrt(x.v + epsilon);
  if (x.r == 0 && u == 0) return {y, 0};
  const double high = 1 / std::sqrt(std::max(x.v - x.r, 0.0) + epsilon), low = 1 / std::sqrt(x.v + x.r + epsilon);
  return {y, std::max(high - y, y - low) + 4 * u * y};
}
inline Near times(Near a, Near b) { return {a.v * b.v, std::fabs(a.v) * b.r + a.r * std::fabs(b.v) + a.r * b.r}; }

// Moments of x over `count` elements x[at(k)]: mean, mean of squared deviations (`centred`) or of squares.
struct Moments {
  Near mean, square;
};
template <class At>
Moments moments(const RefTensor& x, int64_t count, bool centred, double u, At at) {
  Moments m;
  const double n = static_cast<double>(count);
  double sum = 0, magnitude = 0, spread = 0;
  if (centred) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t p = at(k);
      sum += x.f[static_cast<size_t>(p)];
      magnitude += std::fabs(x.f[static_cast<size_t>(p)]);
      spread += x.r(p);
    }
    m.mean = {sum / n, u == 0 ? 0 : (sum_radius(u, count + 1, magnitude) + spread) / n};
  }
  double squares = 0;
  spread = 0;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t p = at(k);
    const double v = x.f[static_cast<size_t>(p)], d = v - m.mean.v,
                 r = x.r(p) + m.mean.r + (centred ? u * (std::fabs(v) + std::fabs(m.mean.v)) : 0);
    squares += d * d;
    spread += (2 * std::fabs(d) + r) * r;
  }
  m.square = {squares / n, u == 0 ? 0 : (sum_radius(u, count + 2, squares) + spread) / n};
  return m;
}

// (x - mean) * factor * scale + shift, computed at round-off u in any of the usual orders.
inline Near normalised(Near x, Near mean, Near factor, Near scale, Near shift, double u) {
  const double d = x.v - mean.v;
  const Near centred{d, x.r + mean.r + u * (std::fabs(x.v) + std::fabs(mean.v))};
  Near y = times(times(centred, factor), scale);
  y.v += shift.v;
  y.r += shift.r + 4 * u * (std::fabs(d * factor.v * scale.v) + std::fabs(shift.v));
  return y;
}

inline Near element(const RefTensor* t, int64_t at, double fallback) {
  return t ? Near{t->f[static_cast<size_t>(at)], t->r(at)} : Near{fallback, 0};
}
// Stores a value; infinite and NaN values carry no radius.
inline void store(RefTensor& y, int64_t at, Near v) {
  y.f[static_cast<size_t>(at)] = v.v;
  if (!y.radius.empty()) y.radius[static_cast<size_t>(at)] = std::isfinite(v.v) ? v.r : 0;
}

}  // namespace peri::ops
