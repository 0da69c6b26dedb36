// The scale and zero point of each element of a quantised tensor, as runs of elements, and the loops of
// quantize/loops.hpp by the type of the integers.
#pragma once

#include <algorithm>

#include "kernels/cpu/quantize/loops.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels::cpu::quantize {

// x is [outer, extent, inner]. One scale: everything is inner. Else element (o, e, i) has the scale e, or by blocks (o,
// e / block, i) of [outer, blocks, inner].
struct Scaled {
  int64_t outer = 1, extent = 1, inner = 1;
  int64_t block = 0, blocks = 1;
  bool one = true;
  int64_t elements() const { return outer * extent * inner; }
  // Elements from `at` on with the scale `scale` (step 0), or with `scale` and those after it (step 1).
  struct Run {
    int64_t scale, step, n;
  };
  Run run_at(int64_t at) const;
  // Whether runs are so short that scales are first expanded to one per element.
  bool spreads() const { return block > 0 && block < kLongRun && inner == 1; }
  // Index of the scale of element `at`, where spreads().
  int64_t scale_at(int64_t at) const { return at / extent * blocks + at % extent / block; }

 private:
  static constexpr int64_t kLongRun = 64;  // from four AVX-512 vectors of floats on, a run by itself. Not varied
};
// to[k] = the value for element at + k; `from` points to that of element `at`. REQUIRES: s.spreads().
template <class T>
void spread(const Scaled& s, int64_t at, int64_t n, const T* from, T* __restrict to) {
  constexpr int64_t kUsual = 8;  // divides the usual blocks of 16 to 128, and the loop over it is unrolled
  int64_t e = at % s.extent, left = std::min(s.block - e % s.block, s.extent - e);
  for (int64_t k = 0; k < n;) {
    const int64_t m = std::min(left, n - k);
    const T v = *from++;
    int64_t j = 0;
    for (; j + kUsual <= m; j += kUsual)
      for (int64_t i = 0; i < kUsual; ++i) to[k + j + i] = v;
    for (; j < m; ++j) to[k + j] = v;
    k += m;
    e = e + left == s.extent ? 0 : e + left;
    left = std::min(s.block, s.extent - e);
  }
}
// The same for values of one, two or four bytes; `from` points to the first of all.
void spread(const Scaled& s, DType type, int64_t at, int64_t n, const void* from, void* to);
// REQUIRES: `n` is a quantize_linear or a dequantize_linear with constant dims. Refuses empty tensors and unsupported
// forms.
Result<Scaled> read_scaled(const ir::Node& n);

// The loop to or from the integer type: u8, i8, u16, i16; i32 too for the second.
void quantize_run(const Loops& l, DType type, const float* x, const float* scale, const void* zero, int64_t step,
                  void* y, int64_t n);
void dequantize_run(const Loops& l, DType type, const void* x, const float* scale, const void* zero, int64_t step,
                    float* y, int64_t n);
// `p` advanced by `n` elements of a byte-sized type; null stays null.
inline const void* moved(const void* p, DType type, int64_t n) {
  return p ? static_cast<const char*>(p) + n * dtype_size(type) : nullptr;
}
inline void* moved(void* p, DType type, int64_t n) { return static_cast<char*>(p) + n * dtype_size(type); }

}  // namespace peri::kernels::cpu::quantize
