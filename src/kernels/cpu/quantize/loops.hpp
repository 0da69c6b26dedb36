// Conversion of rows between floats and small integers, per instruction set. Plain types only: included by sources
// compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::quantize {

// A sum or a product of two rows of bytes, as bytes: with a' = (a ^ a_flip) - a_zero and b' likewise, y[i] =
// round(clip(a' * a_scale + b' * b_scale, low, high)) + y_zero; for a product clip(a' * b' * a_scale, low, high).
// Signed bytes are flipped by 128. REQUIRES: [low, high] + y_zero lies within the range of y.
struct Pair {
  bool product = false;
  uint8_t a_flip = 0, b_flip = 0;
  int32_t a_zero = 0, b_zero = 0, y_zero = 0;
  float a_scale = 1, b_scale = 1, low = 0, high = 0;
};

// y[i] = saturate(round(x[i] / scale) + zero_point), to nearest even, NaN to 0. `step` 0: one scale and zero_point for
// all n elements; 1: each has its own. A null zero_point is 0.
struct Loops {
  void (*to_u8)(const float* x, const float* scale, const uint8_t* zero_point, int64_t step, uint8_t* y, int64_t n);
  void (*to_i8)(const float* x, const float* scale, const int8_t* zero_point, int64_t step, int8_t* y, int64_t n);
  void (*to_u16)(const float* x, const float* scale, const uint16_t* zero_point, int64_t step, uint16_t* y, int64_t n);
  void (*to_i16)(const float* x, const float* scale, const int16_t* zero_point, int64_t step, int16_t* y, int64_t n);
  // y[i] = (x[i] - zero_point) * scale
  void (*from_u8)(const uint8_t* x, const float* scale, const uint8_t* zero_point, int64_t step, float* y, int64_t n);
  void (*from_i8)(const int8_t* x, const float* scale, const int8_t* zero_point, int64_t step, float* y, int64_t n);
  void (*from_u16)(const uint16_t* x, const float* scale, const uint16_t* zero_point, int64_t step, float* y,
                   int64_t n);
  void (*from_i16)(const int16_t* x, const float* scale, const int16_t* zero_point, int64_t step, float* y, int64_t n);
  // The minimum and maximum of the elements and zero; NaN is ignored.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  void (*from_i32)(const int32_t* x, const float* scale, const int32_t* zero_point, int64_t step, float* y, int64_t n);
  // y[i] = x[i] / scale
  void (*quotients)(const float* x, const float* scale, int64_t step, float* y, int64_t n);
  // `b_step` 0: one element of b for all n.
  void (*pair)(const Pair& by, const uint8_t* a, const uint8_t* b, int64_t b_step, uint8_t* y, int64_t n);
};

namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace peri::kernels::cpu::quantize
