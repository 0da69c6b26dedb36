// The loops of integer/tile.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/integer/tile.hpp"

namespace peri::kernels::cpu::integer::PERI_ISA {
namespace {

// each(r, y, c, column, b_zero, times): for each row, its result, its sums, and what corrects them.
template <class Y, class F>
[[gnu::always_inline]] inline void each_row(const Block& k, const F& f) {
  for (int64_t r = 0; r < k.rows; ++r) f(r, static_cast<Y*>(k.y) + r * k.ldy, k.c + r * kGroup * kPanel);
}

[[gnu::always_inline]] inline int32_t wrapping(int32_t c, int32_t column) {
  return static_cast<int32_t>(static_cast<uint32_t>(c) + static_cast<uint32_t>(column));
}
[[gnu::always_inline]] inline int32_t wrapping(int32_t c, int32_t column, int32_t zero, int32_t row) {
  return static_cast<int32_t>(static_cast<uint32_t>(c) + static_cast<uint32_t>(column) -
                              static_cast<uint32_t>(zero) * static_cast<uint32_t>(row));
}

// store(y, j, sum): sums as they are meant.
template <class Y, class F>
[[gnu::always_inline]] inline void corrected(const Block& k, const Correction& by, const F& store) {
  const int32_t *const column = by.column, *const zero = by.b_zero;
  each_row<Y>(k, [&](int64_t r, Y* __restrict y, const int32_t* __restrict c) {
    if (zero == nullptr) {
      for (int64_t j = 0; j < k.cols; ++j) store(y, j, wrapping(c[j], column[j]));
    } else {
      const int32_t row = by.rows[r];
      for (int64_t j = 0; j < k.cols; ++j) store(y, j, wrapping(c[j], column[j], zero[j], row));
    }
  });
}

void sums(const Block& k, const Correction& by) {
  corrected<int32_t>(k, by, [](int32_t* y, int64_t j, int32_t sum) { y[j] = sum; });
}
void floats(const Block& k, const Correction& by) {
  corrected<float>(k, by, [](float* y, int64_t j, int32_t sum) { y[j] = static_cast<float>(sum); });
}

template <class Y>
void rounded(const Block& k, const Correction& by, const Rounding& to) {
  const double low = to.low - to.zero, high = to.high - to.zero;
  const double *const factor = to.factor, *const bias = to.bias;
  const int32_t zero = to.zero;
  corrected<Y>(k, by, [=](Y* y, int64_t j, int32_t sum) {
    const double v = (static_cast<double>(sum) + bias[j]) * factor[j];
    const double from = v < low ? low : v, kept = from > high ? high : from;
    y[j] = static_cast<Y>(static_cast<int32_t>(__builtin_rint(kept)) + zero);
  });
}

template <class X>
[[gnu::always_inline]] inline void taps_of(const Taps& t, int32_t* y) {
  constexpr int64_t kLanes = 64;
  for (int64_t first = 0; first < t.channels; first += kLanes) {
    const int64_t n = t.channels - first < kLanes ? t.channels - first : kLanes;
    float sums[kLanes] = {};
    for (int64_t tap = 0; tap < t.taps; ++tap) {
      if (t.x[tap] == nullptr) continue;
      const X* const x = reinterpret_cast<const X*>(t.x[tap]) + first;
      const float* const w = t.w + tap * t.ldw + first;
      if (n == kLanes) {
        for (int64_t j = 0; j < kLanes; ++j)
          sums[j] += (static_cast<float>(static_cast<int32_t>(x[j])) - t.zero) * w[j];
      } else {
        for (int64_t j = 0; j < n; ++j) sums[j] += (static_cast<float>(static_cast<int32_t>(x[j])) - t.zero) * w[j];
      }
    }
    for (int64_t j = 0; j < n; ++j) y[first + j] = static_cast<int32_t>(sums[j]);
  }
}
void taps(const Taps& t, int32_t* y) { t.is_signed ? taps_of<int8_t>(t, y) : taps_of<uint8_t>(t, y); }

void flip(const uint8_t* x, uint8_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] ^ 0x80;
}
int32_t total(const uint8_t* x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}
template <class X>
void most(const X* x, X* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > y[i] ? x[i] : y[i];
}
}  // namespace

const Loops kLoops = {sums, floats, rounded<uint8_t>, rounded<int8_t>, taps, flip, total, most<uint8_t>, most<int8_t>};

}  // namespace peri::kernels::cpu::integer::PERI_ISA
