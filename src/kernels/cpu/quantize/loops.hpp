// Numbers into small integers and back, a row at a time, for each instruction set. Plain types only: sources by
// instruction set see this.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::quantize {

// y[i] = saturate(round(x[i] / scale) + zero_point), to nearest even, NaN to 0. `step` 0: scale and zero_point are one
// for all n elements; 1: each has its own. A null zero_point is 0.
struct Loops {
  void (*to_u8)(const float* x, const float* scale, const uint8_t* zero_point, int64_t step, uint8_t* y, int64_t n);
  void (*to_i8)(const float* x, const float* scale, const int8_t* zero_point, int64_t step, int8_t* y, int64_t n);
  // y[i] = (x[i] - zero_point) * scale
  void (*from_u8)(const uint8_t* x, const float* scale, const uint8_t* zero_point, int64_t step, float* y, int64_t n);
  void (*from_i8)(const int8_t* x, const float* scale, const int8_t* zero_point, int64_t step, float* y, int64_t n);
  // The least and the greatest of the elements and zero; NaN counts for nothing.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  void (*from_i32)(const int32_t* x, const float* scale, const int32_t* zero_point, int64_t step, float* y, int64_t n);
};

namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace peri::kernels::cpu::quantize
