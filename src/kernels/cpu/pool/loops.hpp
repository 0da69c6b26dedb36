// Loops of pooling and resize. Plain types only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::pool {

constexpr int64_t kSlack = 64;

struct Loops {
  // y[i] = factor * join of base[r * row + c * column + i] over r < rows, c < columns, for i < n; maximum (NaN stays
  // NaN) or sum. rows and columns >= 1.
  void (*join)(bool maximum, const float* base, int64_t rows, int64_t row, int64_t columns, int64_t column,
               float factor, float* y, int64_t n);
  // y[i] = factor * join of base[i * stride + k * step] over k < taps, for i < n. taps >= 1. Reads up to kSlack floats
  // beyond the last one used.
  void (*join_strided)(bool maximum, const float* base, int64_t stride, int64_t taps, int64_t step, float factor,
                       float* y, int64_t n);
  void (*scale)(const float* factors, float* y, int64_t n);  // y[i] *= factors[i]
  // y[i] = a[i] * (1 - t) + b[i] * t
  void (*blend)(const float* a, const float* b, float t, float* y, int64_t n);
  // y[i] = x[index[i]] * (1 - t[i]) + x[next[i]] * t[i]; x[index[i]] alone where t[i] == 0
  void (*blend_at)(const float* x, const int32_t* index, const int32_t* next, const float* t, float* y, int64_t n);
};

namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace peri::kernels::cpu::pool
