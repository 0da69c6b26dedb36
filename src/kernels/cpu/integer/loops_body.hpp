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

// Two loops, each of which becomes vectors: into int32 first.
template <class Y>
void rounded(const Block& k, const Correction& by, const Rounding& to) {
  constexpr int64_t kCols = kGroup * kPanel;
  const double low = to.low - to.zero, high = to.high - to.zero;
  const int32_t zero = to.zero;
  for (int64_t first = 0; first < k.cols; first += kCols) {
    const int64_t n = k.cols - first < kCols ? k.cols - first : kCols;
    const Block part = {k.c + first, k.rows, n, static_cast<Y*>(k.y) + first, k.ldy};
    const Correction part_by = {by.column + first, by.b_zero == nullptr ? nullptr : by.b_zero + first, by.rows};
    const double *const factor = to.factor + first, *const bias = to.bias + first;
    for (int64_t r = 0; r < k.rows; ++r) {
      int32_t whole[kCols];
      Block row = part;
      row.c += r * kCols;
      row.rows = 1;
      row.y = whole;
      Correction row_by = part_by;
      if (row_by.b_zero != nullptr) row_by.rows += r;
      corrected<int32_t>(row, row_by, [=](int32_t* y, int64_t j, int32_t sum) {
        const double v = (static_cast<double>(sum) + bias[j]) * factor[j];
        const double from = v < low ? low : v, kept = from > high ? high : from;
        y[j] = static_cast<int32_t>(__builtin_rint(kept));
      });
      Y* const y = static_cast<Y*>(part.y) + r * k.ldy;
      for (int64_t j = 0; j < n; ++j) y[j] = static_cast<Y>(whole[j] + zero);
    }
  }
}

// So many channels from `first` on; a number that is known becomes vectors. kLanes 0: `n`.
template <class X, int64_t kLanes>
[[gnu::always_inline]] inline void taps_at(const Taps& t, int64_t first, int64_t n, int32_t* y) {
  constexpr int64_t kMost = kLanes > 0 ? kLanes : 8;
  const int64_t count = kLanes > 0 ? kLanes : n;
  float sums[kMost] = {};
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    if (t.x[tap] == nullptr) continue;
    const X* const x = reinterpret_cast<const X*>(t.x[tap]) + first;
    const float* const w = t.w + tap * t.ldw + first;
    for (int64_t j = 0; j < count; ++j) sums[j] += (static_cast<float>(static_cast<int32_t>(x[j])) - t.zero) * w[j];
  }
  for (int64_t j = 0; j < count; ++j) y[first + j] = static_cast<int32_t>(sums[j]);
}
template <class X>
[[gnu::always_inline]] inline void taps_of(const Taps& t, int32_t* y) {
  int64_t at = 0;
  for (; at + 64 <= t.channels; at += 64) taps_at<X, 64>(t, at, 64, y);
  if (at + 32 <= t.channels) {
    taps_at<X, 32>(t, at, 32, y);
    at += 32;
  }
  if (at + 16 <= t.channels) {
    taps_at<X, 16>(t, at, 16, y);
    at += 16;
  }
  if (at + 8 <= t.channels) {
    taps_at<X, 8>(t, at, 8, y);
    at += 8;
  }
  if (at == t.channels) return;
  if (t.channels >= 8)  // the last ones again, with some that were summed before
    taps_at<X, 8>(t, t.channels - 8, 8, y);
  else
    taps_at<X, 0>(t, at, t.channels - at, y);
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
