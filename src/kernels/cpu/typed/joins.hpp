// Sums, products and extremes over runs of elements, for each instruction set: a run as one number, or several runs
// place by place. Plain types only: sources by instruction set see this.
#pragma once

#include <cstdint>

#include "kernels/cpu/typed/loops.hpp"

namespace peri::kernels::cpu::typed {

// Integers wrap; extremes keep NaN.
enum class Join : uint8_t { kSum, kSumSquare, kSumMagnitude, kProduct, kMax, kMin };

struct Joins {
  // *y = *y joined with all n elements of x.
  void (*run)(const void* x, int64_t n, void* y);
  // y[i] = y[i] joined with x[i], for i < n.
  void (*places)(const void* x, int64_t n, void* y);
};

// Of f32, f64 and integers; bool counts as u8. Null pointers: there are none.
namespace avx2 {
Joins find_joins(Join join, Elem of);
}
namespace avx512 {
Joins find_joins(Join join, Elem of);
}

}  // namespace peri::kernels::cpu::typed
