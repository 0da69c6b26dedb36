// The p-norm of a list of numbers with its error radius.
#pragma once

#include <cmath>

#include "ops/reference/norm.hpp"

namespace peri::ops {

// (sum |x|^p)^(1/p). By the triangle inequality the norm changes by at most the norm of the radii; rounding of powers,
// sum and root is relative, as no term is negative.
class LpSum {
 public:
  LpSum(int64_t p, double u) : p_(static_cast<double>(p)), u_(u) {}
  void add(double x, double radius) {
    sum_ += power(x);
    if (radius != 0) radii_ += power(radius);
    ++count_;
  }
  Near root() const {
    const double v = back(sum_);
    if (u_ == 0) return {v, 0};
    return {v, (radii_ > 0 ? back(radii_) : 0) + sum_radius(u_, count_ + 1, v) / p_ + 8 * u_ * v};
  }

 private:
  double power(double x) const { return p_ == 1 ? std::fabs(x) : p_ == 2 ? x * x : std::pow(std::fabs(x), p_); }
  double back(double s) const { return p_ == 1 ? s : p_ == 2 ? std::sqrt(s) : std::pow(s, 1 / p_); }
  double p_, u_, sum_ = 0, radii_ = 0;
  int64_t count_ = 0;
};

}  // namespace peri::ops
