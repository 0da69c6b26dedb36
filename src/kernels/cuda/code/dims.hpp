// Sizes of a problem's values, and axes that count from either end.
#pragma once

#include <span>

#include "kernels/entry.hpp"

namespace peri::kernels::cuda {

// The product of the sizes; 1 for none.
int64_t elements_of(std::span<const int64_t> dims);
int64_t numel_of(const ir::Value& v);
// A negative axis counts from the end. Refuses one that is out of range for the rank.
Result<size_t> axis_within(int64_t axis, size_t rank);

}  // namespace peri::kernels::cuda
