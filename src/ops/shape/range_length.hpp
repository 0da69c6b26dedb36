// How many elements a range may have.
#pragma once

#include <cmath>

#include "base/result.hpp"

namespace peri::ops {

constexpr double kMaxRangeElements = 0x1p40;

// `length`: the elements as a number that need not be finite.
inline Status check_range_length(double delta, double length) {
  if (delta == 0) return invalid("range has a delta of 0");
  if (std::isnan(length)) return invalid("range has no finite length");
  if (length > kMaxRangeElements)
    return invalid("range is too long")
        .expecting(format("at most %.0f elements", kMaxRangeElements))
        .but_found(std::isinf(length) ? "infinitely many" : format("%.0f", length));
  return Ok{};
}

}  // namespace peri::ops
