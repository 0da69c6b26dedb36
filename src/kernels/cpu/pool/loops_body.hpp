// The loops of pool/loops.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/pool/loops.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::pool::PERI_ISA {

using simd::PERI_ISA::F32;
constexpr int64_t kLanes = F32::kLanes;

PERI_SIMD F32 read(const float* p, int64_t n) { return n >= kLanes ? F32::load(p) : F32::load_n(p, n); }
PERI_SIMD void write(float* p, F32 v, int64_t n) { n >= kLanes ? store(p, v) : store_n(p, v, n); }

struct Max {
  PERI_SIMD_MEMBER static F32 start() { return F32::set1(-__builtin_inff()); }
  PERI_SIMD_MEMBER static F32 run(F32 a, F32 b) { return max(a, b); }
};
struct Sum {
  PERI_SIMD_MEMBER static F32 start() { return F32::zero(); }
  PERI_SIMD_MEMBER static F32 run(F32 a, F32 b) { return a + b; }
};

template <class J>
PERI_SIMD void join_all(const float* base, int64_t rows, int64_t row, int64_t columns, int64_t column, float factor,
                        float* y, int64_t n) {
  const F32 f = F32::set1(factor);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    F32 a = J::start(), b = a, c = a, d = a;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t q = 0; q < columns; ++q) {
        const float* p = base + r * row + q * column + i;
        a = J::run(a, F32::load(p));
        b = J::run(b, F32::load(p + kLanes));
        c = J::run(c, F32::load(p + 2 * kLanes));
        d = J::run(d, F32::load(p + 3 * kLanes));
      }
    }
    store(y + i, a * f);
    store(y + i + kLanes, b * f);
    store(y + i + 2 * kLanes, c * f);
    store(y + i + 3 * kLanes, d * f);
  }
  for (; i < n; i += kLanes) {
    F32 a = J::start();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t q = 0; q < columns; ++q) a = J::run(a, read(base + r * row + q * column + i, n - i));
    }
    write(y + i, a * f, n - i);
  }
}

// The same for a few rows, whose addresses stay in registers.
template <class J, int kTaps>
PERI_SIMD void join_few(const float* const* from, float factor, float* y, int64_t n) {
  const F32 f = F32::set1(factor);
  for (int64_t i = 0; i < n; i += kLanes) {
    F32 a = read(from[0] + i, n - i);
    for (int k = 1; k < kTaps; ++k) a = J::run(a, read(from[k] + i, n - i));
    write(y + i, a * f, n - i);
  }
}
template <class J>
PERI_SIMD void join_rows(const float* base, int64_t rows, int64_t row, int64_t columns, int64_t column, float factor,
                         float* y, int64_t n) {
  if (rows * columns > 4) return join_all<J>(base, rows, row, columns, column, factor, y, n);
  const float* from[4] = {};
  for (int64_t k = 0; k < rows * columns; ++k) from[k] = base + k / columns * row + k % columns * column;
  switch (rows * columns) {
    case 1: return join_few<J, 1>(from, factor, y, n);
    case 2: return join_few<J, 2>(from, factor, y, n);
    case 3: return join_few<J, 3>(from, factor, y, n);
    default: return join_few<J, 4>(from, factor, y, n);
  }
}

void join(bool maximum, const float* base, int64_t rows, int64_t row, int64_t columns, int64_t column, float factor,
          float* y, int64_t n) {
  if (maximum) return join_rows<Max>(base, rows, row, columns, column, factor, y, n);
  join_rows<Sum>(base, rows, row, columns, column, factor, y, n);
}

template <int kStride>
PERI_SIMD F32 at_stride(const float* p) {
  if constexpr (kStride == 1) return F32::load(p);
  return even_lanes(F32::load(p), F32::load(p + kLanes));
}

template <bool Maximum>
void join_by(const float* __restrict base, int64_t stride, int64_t taps, int64_t step, float factor,
             float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = base[i * stride];
  for (int64_t k = 1; k < taps; ++k) {
    const float* __restrict at = base + k * step;
    for (int64_t i = 0; i < n; ++i) {
      const float v = at[i * stride];
      y[i] = Maximum ? (((v > y[i]) | (v != v)) ? v : y[i]) : y[i] + v;
    }
  }
  if (!Maximum)
    for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

// Strides of one and two by vectors, each element of y in one pass. kTaps 0: `taps`.
template <class J, int kStride, int kTaps>
PERI_SIMD void join_line(const float* base, int64_t taps, int64_t step, float factor, float* y, int64_t n) {
  const F32 f = F32::set1(factor);
  const int64_t count = kTaps > 0 ? kTaps : taps;
  for (int64_t i = 0; i < n; i += kLanes) {
    const float* p = base + i * kStride;
    F32 a = at_stride<kStride>(p);
    for (int64_t k = 1; k < count; ++k) a = J::run(a, at_stride<kStride>(p += step));
    write(y + i, a * f, n - i);
  }
}
template <class J, int kStride>
void join_line(const float* base, int64_t taps, int64_t step, float factor, float* y, int64_t n) {
  if (taps == 2) return join_line<J, kStride, 2>(base, taps, step, factor, y, n);
  if (taps == 3) return join_line<J, kStride, 3>(base, taps, step, factor, y, n);
  join_line<J, kStride, 0>(base, taps, step, factor, y, n);
}

void join_strided(bool maximum, const float* base, int64_t stride, int64_t taps, int64_t step, float factor, float* y,
                  int64_t n) {
  if (stride == 1) return (maximum ? join_line<Max, 1> : join_line<Sum, 1>)(base, taps, step, factor, y, n);
  if (stride == 2) return (maximum ? join_line<Max, 2> : join_line<Sum, 2>)(base, taps, step, factor, y, n);
  (maximum ? join_by<true> : join_by<false>)(base, stride, taps, step, factor, y, n);
}

void scale(const float* factors, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) write(y + i, read(y + i, n - i) * read(factors + i, n - i), n - i);
}

void blend(const float* a, const float* b, float t, float* y, int64_t n) {
  const F32 u = F32::set1(1.0f - t), v = F32::set1(t);
  for (int64_t i = 0; i < n; i += kLanes) write(y + i, fma(read(b + i, n - i), v, read(a + i, n - i) * u), n - i);
}

void blend_at(const float* x, const int32_t* index, const int32_t* next, const float* t, float* y, int64_t n) {
  // t == 0 uses only the first point: an infinite second one must not make it NaN.
  for (int64_t i = 0; i < n; ++i)
    y[i] = t[i] == 0 ? x[index[i]] : __builtin_fmaf(x[next[i]], t[i], x[index[i]] * (1.0f - t[i]));
}

const Loops kLoops = {join, join_strided, scale, blend, blend_at};

}  // namespace peri::kernels::cpu::pool::PERI_ISA
