// Combination of updates in scatter ops: replace, add, multiply, minimum, maximum; exact for integers, with radii for
// floats.
#pragma once

#include <cmath>
#include <string>

#include "ops/reference/elements.hpp"

namespace peri::ops {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };
Result<Reduction> reduction_of(const ir::Node& node);

// Applies updates one after the other, in ascending order of their positions, to a copy of `data` in y.
class Scatter {
 public:
  // REQUIRES y and data of one type and size. Copies the data.
  Scatter(Reduction how, const RefTensor& data, RefTensor& y, double u);
  // y[to] = y[to] (reduction) updates[from].
  void apply(int64_t to, const RefTensor& updates, int64_t from);
  // Adds the error of rounding to the radii.
  void finish();

 private:
  void apply_float(size_t to, double v, double r);
  void apply_integer(size_t to, int64_t v);
  Reduction how_;
  RefTensor& y_;
  double u_;
  std::vector<double> magnitude_;  // of terms (add) or of partial products (mul)
  std::vector<int64_t> count_;
};

}  // namespace peri::ops
