// Indices that models compute, checked against the extent they point into; products of parts of a shape.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

// An index in [-extent, extent) made non-negative; error that names the index, the extent and `axis` otherwise.
inline Result<int64_t> checked_index(int64_t index, int64_t extent, int64_t axis) {
  if (index < -extent || index >= extent)
    return invalid("an index is out of range")
        .expecting(format("[%lld, %lld) along axis %lld", static_cast<long long>(-extent),
                          static_cast<long long>(extent), static_cast<long long>(axis)))
        .but_found(std::to_string(index));
  return index < 0 ? index + extent : index;
}

// Product of dims[begin, end).
inline int64_t span_of(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t k = begin; k < end; ++k) n *= dims[k];
  return n;
}

}  // namespace peri::ops
