// The loops of integer/tile.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/integer/tile.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::integer::PERI_ISA {
namespace {

// each(r, y, c, column, b_zero, times): for each row its result, its sums, and its corrections.
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

// store(y, j, sum): corrected sums.
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

using simd::PERI_ISA::F32;
using simd::PERI_ISA::I32;
constexpr int64_t kLanes = F32::kLanes, kRow = kGroup * kPanel;
// Distance from the midpoint of two integers within which float32 cannot decide which one is nearer. Where that matters
// the product is below 320, its sum with the rest below 256: conversion of the sum, factor and addition each round by
// 2^-24 of that, and the rest by 2^-24 of at most kMaxRest (matched.cpp): 6e-5 in all.
constexpr float kTie = 0.5F - 1e-4F;

// `n` columns, at most one vector: all lanes where kFull.
template <bool kFull, class V, class T>
PERI_SIMD V some(const T* p, int64_t n) {
  if constexpr (kFull) return V::load(p);
  return V::load_n(p, n);
}
template <bool kFull, class X>
PERI_SIMD F32 numbers(const uint8_t* from, int64_t n) {
  if constexpr (kFull) return to_float(widen(reinterpret_cast<const X*>(from)));
  X kept[kLanes] = {};
  for (int64_t j = 0; j < n; ++j) kept[j] = static_cast<X>(from[j]);
  return to_float(widen(kept));
}
PERI_SIMD F32 within(F32 v, F32 low, F32 high) { return min_second(high, max_second(low, v)); }
// Largest distance from an integer in each lane; whether float32 cannot decide for some lane.
PERI_SIMD void more(F32* most, F32 v, F32 whole) { *most = max_second(*most, abs(v - whole)); }
PERI_SIMD bool doubtful(F32 most) { return any(gt(most, F32::set1(kTie))); }

I32 exactly(I32 sum, int64_t n, const double* bias, const double* factor, double low, double high) {
  int32_t y[kLanes];
  store(y, sum);
  for (int64_t j = 0; j < n; ++j) {
    const double v = (static_cast<double>(y[j]) + bias[j]) * factor[j];
    const double from = v < low ? low : v, kept = from > high ? high : from;
    y[j] = static_cast<int32_t>(__builtin_rint(kept));
  }
  return I32::load(y);
}

// What is added, in registers: other bytes or numbers, and the bounds of the sum, including those of its clip, in units
// of the result.
struct Other {
  const Added& a;
  I32 shift;
  F32 own, zero, scale, unit, low, high;
  PERI_SIMD_MEMBER Other(const Added& added, int32_t from)
      : a(added),
        shift(I32::set1(from - added.own_zero)),
        own(F32::set1(added.own_scale)),
        zero(F32::set1(added.x_zero)),
        scale(F32::set1(added.x_scale)),
        unit(F32::set1(1 / added.y_scale)) {
    const auto least = static_cast<float>(a.y_low - a.y_zero), most = static_cast<float>(a.y_high - a.y_zero);
    low = max_second(F32::set1(least), F32::set1(a.low) * unit);
    high = max_second(F32::set1(least), min_second(F32::set1(most), F32::set1(a.high) * unit));
  }
};

// kVectors vectors of columns of a row; the last columns: one vector, of which `n` are used. kSums: something is added
// after the rounding. Members, not fields of the argument: stores of bytes could alias those.
template <int kVectors, bool kFull, bool kSums>
struct Columns {
  const Block& k;
  const Correction& by;
  const Rounding& to;
  int64_t first, n;
  bool quick;
  I32 start[kVectors], zero[kVectors];  // `start`: added to the sums, in the fast path including the bias
  F32 factor[kVectors], rest[kVectors], low, high;
  Other other;
  Table table;

  PERI_SIMD_MEMBER Columns(const Block& k, const Correction& by, const Rounding& to, int64_t first, int64_t n)
      : k(k),
        by(by),
        to(to),
        first(first),
        n(n),
        quick(to.quick_factor != nullptr),
        low(F32::set1(static_cast<float>(to.low - to.zero))),
        high(F32::set1(static_cast<float>(to.high - to.zero))),
        other(to.added, to.zero),
        table(to.table) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = first + v * kLanes;
      start[v] = some<kFull, I32>(by.column + at, n);
      if (quick) start[v] = start[v] + some<kFull, I32>(to.quick_bias + at, n);
      zero[v] = by.b_zero == nullptr ? I32::set1(0) : some<kFull, I32>(by.b_zero + at, n);
      factor[v] = quick ? some<kFull, F32>(to.quick_factor + at, n) : F32::zero();
      rest[v] = quick ? some<kFull, F32>(to.quick_rest + at, n) : F32::zero();
    }
  }

  // Integers from the sums of row `r`, before the zero point is added.
  PERI_SIMD_MEMBER void round_sums(int64_t r, I32 (&y)[kVectors]) const {
    I32 sum[kVectors];
    F32 most = F32::zero();
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = some<kFull, I32>(k.c + first + v * kLanes + r * kRow, n) + start[v];
      if (by.b_zero != nullptr) sum[v] = sum[v] - zero[v] * I32::set1(by.rows[r]);
      const F32 x = within(fma(to_float(sum[v]), factor[v], rest[v]), low, high);
      y[v] = to_int(x);
      more(&most, x, to_float(y[v]));
    }
    if (quick && !doubtful(most)) return;
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = first + v * kLanes;
      const I32 bare = quick ? sum[v] - some<kFull, I32>(to.quick_bias + at, n) : sum[v];
      y[v] = exactly(bare, n, to.bias + at, to.factor + at, to.low - to.zero, to.high - to.zero);
    }
  }

  // y = round(clip((y + shift) * own + other) / y_scale); by the reciprocal where that decides. `at`: of the row.
  PERI_SIMD_MEMBER void add(int64_t at, I32 (&y)[kVectors]) const {
    const Added& a = other.a;
    F32 sum[kVectors], most = F32::zero();
    for (int v = 0; v < kVectors; ++v) {
      const int64_t from = first + v * kLanes;
      const F32 mine = to_float(y[v] + other.shift);
      if (a.column != nullptr) {
        sum[v] = fma(mine, other.own, some<kFull, F32>(a.column + from, n));
      } else {
        const F32 theirs =
            a.x_signed ? numbers<kFull, int8_t>(a.x + at + from, n) : numbers<kFull, uint8_t>(a.x + at + from, n);
        sum[v] = fma(mine, other.own, (theirs - other.zero) * other.scale);
      }
      const F32 x = within(sum[v] * other.unit, other.low, other.high);
      y[v] = to_int(x);
      more(&most, x, to_float(y[v]));
    }
    if (!doubtful(most)) return;
    const F32 least = F32::set1(static_cast<float>(a.y_low - a.y_zero)),
              largest = F32::set1(static_cast<float>(a.y_high - a.y_zero));
    for (int v = 0; v < kVectors; ++v) {
      const F32 clipped = within(sum[v], F32::set1(a.low), F32::set1(a.high));
      y[v] = to_int(within(clipped / F32::set1(a.y_scale), least, largest));
    }
  }

  PERI_SIMD_MEMBER void run() const {
    const I32 end = I32::set1(kSums ? to.added.y_zero : to.zero);
    const bool looks_up = to.table != nullptr;
    for (int64_t r = 0; r < k.rows; ++r) {
      I32 y[kVectors];
      round_sums(r, y);
      if constexpr (kSums) add(r * k.ldy, y);
      uint8_t* const out = static_cast<uint8_t*>(k.y) + r * k.ldy + first;
      for (int v = 0; v < kVectors; ++v) {
        I32 byte = y[v] + end;
        if (looks_up) byte = table.at(byte & I32::set1(0xff));
        if constexpr (kFull) {
          narrow(out + v * kLanes, byte);
        } else {
          uint8_t bytes[kLanes];
          narrow(bytes, byte);
          for (int64_t j = 0; j < n; ++j) out[j] = bytes[j];
        }
      }
    }
  }
};
template <bool kSums>
void rounded_sums(const Block& k, const Correction& by, const Rounding& to) {
  int64_t first = 0;
  for (; first + 4 * kLanes <= k.cols; first += 4 * kLanes) Columns<4, true, kSums>(k, by, to, first, kLanes).run();
  for (; first + kLanes <= k.cols; first += kLanes) Columns<1, true, kSums>(k, by, to, first, kLanes).run();
  if (first < k.cols) Columns<1, false, kSums>(k, by, to, first, k.cols - first).run();
}
void rounded(const Block& k, const Correction& by, const Rounding& to) {
  to.added.any() ? rounded_sums<true>(k, by, to) : rounded_sums<false>(k, by, to);
}

void look_up(const uint8_t* x, const uint8_t* by, uint8_t* y, int64_t n) {
  const Table table(by);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) narrow(y + j, table.at(widen(x + j)));
  for (; j < n; ++j) y[j] = by[x[j]];
}

// This many channels from `first` on; a compile-time number becomes vectors. kLanes 0: `n`.
template <class X, int64_t kLanes>
[[gnu::always_inline]] inline void taps_at(const Taps& t, int64_t first, int64_t n, int32_t* y) {
  constexpr int64_t kMax = kLanes > 0 ? kLanes : 8;
  const int64_t count = kLanes > 0 ? kLanes : n;
  float sums[kMax] = {};
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
  if (t.channels >= 8)  // the last ones again, some of which were summed before
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

const Loops kLoops = {sums, floats, rounded, look_up, taps, flip, total, most<uint8_t>, most<int8_t>};

}  // namespace peri::kernels::cpu::integer::PERI_ISA
