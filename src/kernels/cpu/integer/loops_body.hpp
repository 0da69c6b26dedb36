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

constexpr int64_t kCols = kGroup * kPanel;
// Nearer than this to the middle of two whole numbers float32 does not tell which one is nearest: three roundings of
// numbers below 512.
constexpr float kTie = 0.5F - 3e-4F;

// Whole numbers from sums, in float32; false where some may be wrong.
[[gnu::always_inline]] inline bool quickly(const int32_t* __restrict sums, int64_t n, const int32_t* bias,
                                           const float* factor, float low, float high, int32_t* __restrict y) {
  int32_t doubtful = 0;
  for (int64_t j = 0; j < n; ++j) {
    const float v = static_cast<float>(wrapping(sums[j], bias[j])) * factor[j];
    const float from = v < low ? low : v, kept = from > high ? high : from, whole = __builtin_rintf(kept);
    doubtful |= __builtin_fabsf(kept - whole) > kTie ? 1 : 0;
    y[j] = static_cast<int32_t>(whole);
  }
  return doubtful == 0;
}
[[gnu::always_inline]] inline void exactly(const int32_t* __restrict sums, int64_t n, const double* bias,
                                           const double* factor, double low, double high, int32_t* __restrict y) {
  for (int64_t j = 0; j < n; ++j) {
    const double v = (static_cast<double>(sums[j]) + bias[j]) * factor[j];
    const double from = v < low ? low : v, kept = from > high ? high : from;
    y[j] = static_cast<int32_t>(__builtin_rint(kept));
  }
}

// y = round(clip((y + shift) * own + other(j)) / y_scale); by the reciprocal where that tells.
template <class F>
[[gnu::always_inline]] inline void add_numbers(const Added& a, int32_t shift, int64_t n, int32_t* __restrict y,
                                               const F& other) {
  const float low = static_cast<float>(a.y_low - a.y_zero), high = static_cast<float>(a.y_high - a.y_zero);
  const float own = a.own_scale, least = a.low, most = a.high, by = 1 / a.y_scale;
  float sums[kCols];
  for (int64_t j = 0; j < n; ++j) {
    const float v = static_cast<float>(y[j] + shift) * own + other(j), from = v < least ? least : v;
    sums[j] = from > most ? most : from;
  }
  int32_t doubtful = 0;
  for (int64_t j = 0; j < n; ++j) {
    const float v = sums[j] * by, from = v < low ? low : v, kept = from > high ? high : from,
                whole = __builtin_rintf(kept);
    doubtful |= __builtin_fabsf(kept - whole) > kTie ? 1 : 0;
    y[j] = static_cast<int32_t>(whole);
  }
  if (doubtful == 0) return;
  for (int64_t j = 0; j < n; ++j) {
    const float v = sums[j] / a.y_scale, from = v < low ? low : v;
    y[j] = static_cast<int32_t>(__builtin_rintf(from > high ? high : from));
  }
}
template <class X>
[[gnu::always_inline]] inline void add_bytes(const Added& a, int32_t shift, int64_t n, const uint8_t* from,
                                             int32_t* y) {
  const X* const __restrict x = reinterpret_cast<const X*>(from);
  const float zero = a.x_zero, scale = a.x_scale;
  add_numbers(a, shift, n, y,
              [=](int64_t j) { return (static_cast<float>(static_cast<int32_t>(x[j])) - zero) * scale; });
}
// `at`: of the row's first column in the result, in elements.
void add(const Rounding& to, int64_t first, int64_t at, int64_t n, int32_t* y) {
  const Added& a = to.added;
  const int32_t shift = to.zero - a.own_zero;
  if (a.column != nullptr) {
    const float* const __restrict column = a.column + first;
    add_numbers(a, shift, n, y, [=](int64_t j) { return column[j]; });
  } else if (a.x_signed) {
    add_bytes<int8_t>(a, shift, n, a.x + at, y);
  } else {
    add_bytes<uint8_t>(a, shift, n, a.x + at, y);
  }
}

// Loops over a row's columns, each of which becomes vectors: into int32 first.
template <class Y>
void rounded(const Block& k, const Correction& by, const Rounding& to) {
  const int32_t low = to.low - to.zero, high = to.high - to.zero;
  for (int64_t first = 0; first < k.cols; first += kCols) {
    const int64_t n = k.cols - first < kCols ? k.cols - first : kCols;
    const Correction part_by = {by.column + first, by.b_zero == nullptr ? nullptr : by.b_zero + first, by.rows};
    for (int64_t r = 0; r < k.rows; ++r) {
      int32_t sum[kCols], whole[kCols];
      const Block row = {k.c + first + r * kCols, 1, n, sum, kCols};
      Correction row_by = part_by;
      if (row_by.b_zero != nullptr) row_by.rows += r;
      corrected<int32_t>(row, row_by, [](int32_t* y, int64_t j, int32_t v) { y[j] = v; });
      if (to.quick_factor == nullptr || !quickly(sum, n, to.quick_bias + first, to.quick_factor + first,
                                                 static_cast<float>(low), static_cast<float>(high), whole))
        exactly(sum, n, to.bias + first, to.factor + first, low, high, whole);
      int32_t zero = to.zero;
      if (to.added.any()) {
        add(to, first, r * k.ldy + first, n, whole);
        zero = to.added.y_zero;
      }
      Y* const y = static_cast<Y*>(k.y) + r * k.ldy + first;
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
