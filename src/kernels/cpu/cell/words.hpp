// Products of 16-bit numbers with bytes, for processors whose products of bytes saturate (AVX2): half as many as those
// of both bytes of a number, and exact. Plain types only: included by a source compiled for AVX2.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::cell::avx2 {

// What split() of cell.hpp wrote, as one number each: to[j] = 256 high[j] + low[j] - 2^15. All hold the next multiple
// of 16.
void interleave(const uint8_t* high, const uint8_t* low, int64_t n, int16_t* to);

// y[r][j] = (sum over k of x[r][k] b[k][j]) steps[r] scale[j] + add[j]. Sums of up to 512 products are exact, whatever
// the numbers; longer ones are those of their parts in float32.
struct Words {
  const int16_t* x = nullptr;  // rows of ldx numbers, readable up to the next multiple of 4 of k; none is -2^15
  int64_t ldx = 0, rows = 0, k = 0, n = 0;
  const float* steps = nullptr;
  const int8_t* b = nullptr;  // panels as integer/tile.hpp has them
  int64_t panel_bytes = 0;
  const float *scale = nullptr, *add = nullptr;  // add null: nothing
  float* y = nullptr;
  int64_t ldy = 0;
};
void multiply(const Words& by);

}  // namespace peri::kernels::cpu::cell::avx2
