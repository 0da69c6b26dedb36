// Quantised numbers, (q - zero_point) * scale, with one scale and zero point for a tensor, for each element along an
// axis, or for each block along it.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/reference/cast.hpp"
#include "ops/reference/elements.hpp"

namespace peri::ops {

constexpr TypeSet kBytes = types({DType::kI8, DType::kU8});
constexpr TypeSet kQuantized = types({DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI4, DType::kU4,
                                      DType::kI2, DType::kU2, DType::kF4E2M1}) |
                               kFloat8;
constexpr TypeSet kScales = kFloats | types({DType::kF8E8M0});

// Index into scales of shape `scale` for flat position p of a tensor of shape `x`.
class ScaleOf {
 public:
  // `axis` may be negative; `block` 0: no blocks.
  ScaleOf(const std::vector<int64_t>& x, const std::vector<int64_t>& scale, int64_t axis, int64_t block);
  int64_t operator()(int64_t p) const {
    if (one_) return 0;
    const int64_t inner = p % inner_, along = p / inner_ % extent_, outer = p / inner_ / extent_;
    return block_ == 0 ? along : (outer * blocks_ + along / block_) * inner_ + inner;
  }

 private:
  bool one_ = true;
  int64_t inner_ = 1, extent_ = 1, block_ = 0, blocks_ = 1;
};
// Checks that scales fit x: one, a list along the axis, or blocks along it. Errors name the port.
Status check_scale(const InferContext& c, size_t port, std::string_view name, const Shape& x, int64_t axis,
                   int64_t block);

// Checks the elements of a constant scale of floats: finite; where values are divided by it none is 0, elsewhere not
// all are (a channel or block of zeros may have 0). No constant: nothing to check.
Status check_values_of_scale(const ir::Value* scale, bool divides);
// Checks that a zero point has the shape of its scale.
Status check_alike(const InferContext& c, size_t scale, size_t zero_point);

// A double as an element of an integer type: rounded to nearest even, clamped to its range.
inline int64_t saturated(DType t, double v) {
  const double low = int_value(t, int_lowest(t)), high = int_value(t, int_largest(t));
  if (std::isnan(v)) return 0;
  return static_cast<int64_t>(std::min(std::max(std::nearbyint(v), low), high));
}
// y[at] = v, quantised: a float8 or float4 is rounded; an integer is rounded, offset by the zero point and clamped.
void store_quantized(RefTensor& y, int64_t at, double v, int64_t zero_point, const CastRules& rules);
// The zero point of element `at`, an integer; 0 where there is none or it is a float.
inline int64_t zero_point_at(const RefTensor* z, int64_t at) {
  return z && !z->floating() ? z->i[static_cast<size_t>(at)] : 0;
}

}  // namespace peri::ops
