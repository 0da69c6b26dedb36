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

void join(bool maximum, const float* base, int64_t rows, int64_t row, int64_t columns, int64_t column, float factor,
          float* y, int64_t n) {
  if (maximum) return join_all<Max>(base, rows, row, columns, column, factor, y, n);
  join_all<Sum>(base, rows, row, columns, column, factor, y, n);
}

// The compiler's vectors, for strides it can shuffle.
template <int64_t Stride, bool Maximum>
void join_by(const float* __restrict base, int64_t any_stride, int64_t taps, int64_t step, float factor,
             float* __restrict y, int64_t n) {
  const int64_t stride = Stride > 0 ? Stride : any_stride;
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

void join_strided(bool maximum, const float* base, int64_t stride, int64_t taps, int64_t step, float factor, float* y,
                  int64_t n) {
  const auto run = stride == 1   ? (maximum ? join_by<1, true> : join_by<1, false>)
                   : stride == 2 ? (maximum ? join_by<2, true> : join_by<2, false>)
                                 : (maximum ? join_by<0, true> : join_by<0, false>);
  run(base, stride, taps, step, factor, y, n);
}

void blend(const float* a, const float* b, float t, float* y, int64_t n) {
  const F32 u = F32::set1(1.0f - t), v = F32::set1(t);
  for (int64_t i = 0; i < n; i += kLanes) write(y + i, fma(read(b + i, n - i), v, read(a + i, n - i) * u), n - i);
}

void blend_at(const float* x, const int32_t* index, const int32_t* next, const float* t, float* y, int64_t n) {
  // t == 0 takes the point alone: a neighbour that is infinite must not make it NaN.
  for (int64_t i = 0; i < n; ++i)
    y[i] = t[i] == 0 ? x[index[i]] : __builtin_fmaf(x[next[i]], t[i], x[index[i]] * (1.0f - t[i]));
}

const Loops kLoops = {join, join_strided, blend, blend_at};

}  // namespace peri::kernels::cpu::pool::PERI_ISA
