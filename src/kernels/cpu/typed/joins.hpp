// Sums, products and extremes over runs of elements, per instruction set: of a run to one number, or of several runs
// element by element. Plain types only: included by sources compiled per ISA.
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

// For f32, f64 and integers; bool counts as u8. Null pointers: not available.
namespace avx2 {
Joins find_joins(Join join, Elem of);
}
namespace avx512 {
Joins find_joins(Join join, Elem of);
}

}  // namespace peri::kernels::cpu::typed
