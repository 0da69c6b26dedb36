// The loops of conv/thin.hpp, written once; included by thin_avx2.cpp and thin_avx512.cpp, which set PERI_ISA and
// include the vectors.

#include "kernels/cpu/conv/thin.hpp"

namespace peri::kernels::cpu::conv::PERI_ISA {
namespace {
using simd::PERI_ISA::F32;

// kVectors vectors of columns of kOuts planes in registers; `n` columns are stored.
template <int kOuts, int kVectors>
PERI_SIMD void tile(const ThinRow& r, int64_t column, int64_t n) {
  F32 sum[kOuts][kVectors];
  for (int o = 0; o < kOuts; ++o)
    for (int v = 0; v < kVectors; ++v) sum[o][v] = r.bias ? F32::set1(r.bias[o]) : F32::zero();
  const float* const x = r.x + column;
  for (int64_t t = 0; t < r.taps; ++t) {
    F32 a[kVectors];
    for (int v = 0; v < kVectors; ++v) a[v] = F32::load(x + r.at[t] + v * F32::kLanes);
    for (int o = 0; o < kOuts; ++o) {
      const F32 w = F32::set1(r.w[o * r.taps + t]);
      for (int v = 0; v < kVectors; ++v) sum[o][v] = fma(w, a[v], sum[o][v]);
    }
  }
  for (int o = 0; o < kOuts; ++o)
    for (int v = 0; v < kVectors; ++v) {
      const int64_t left = n - v * F32::kLanes;
      float* const y = r.y + o * r.y_step + column + v * F32::kLanes;
      if (left >= F32::kLanes)
        store(y, sum[o][v]);
      else if (left > 0)
        store_n(y, sum[o][v], left);
    }
}

template <int kOuts>
PERI_SIMD void columns(const ThinRow& r) {
  constexpr int kWide = kOuts == 1 ? 4 : 2;
  int64_t i = 0;
  for (; r.n - i > (kWide - 1) * F32::kLanes; i += kWide * F32::kLanes) tile<kOuts, kWide>(r, i, r.n - i);
  if constexpr (kWide == 4)
    for (; r.n - i > F32::kLanes; i += 2 * F32::kLanes) tile<kOuts, 2>(r, i, r.n - i);
  for (; i < r.n; i += F32::kLanes) tile<kOuts, 1>(r, i, r.n - i);
}

// The elements of 2^k vectors, one from each in turn.
template <int kRows>
PERI_SIMD void weave_vectors(F32 (&v)[kRows]) {
  for (int level = 1; level < kRows; level *= 2) {
    F32 woven[kRows];
    for (int k = 0; k < kRows / 2; ++k) {
      woven[2 * k] = low_pairs(v[k], v[k + kRows / 2]);
      woven[2 * k + 1] = high_pairs(v[k], v[k + kRows / 2]);
    }
    for (int k = 0; k < kRows; ++k) v[k] = woven[k];
  }
}

template <int kRows>
PERI_SIMD int64_t weave_rows(const Weave& w) {
  int64_t i = 0;
  for (; (i + F32::kLanes) * kRows <= w.n; i += F32::kLanes) {
    F32 v[kRows];
    for (int k = 0; k < kRows; ++k) v[k] = F32::load(w.x + k * w.x_step + i);
    weave_vectors(v);
    for (int k = 0; k < kRows; ++k) store(w.y + i * kRows + k * F32::kLanes, v[k]);
  }
  return i;
}
}  // namespace

void weave(const Weave& w) {
  int64_t i = 0;
  switch (w.rows) {
    case 1: i = weave_rows<1>(w); break;
    case 2: i = weave_rows<2>(w); break;
    case 4: i = weave_rows<4>(w); break;
    case 8: i = weave_rows<8>(w); break;
    default: break;
  }
  for (int64_t at = i * w.rows; at < w.n; ++i, at += w.rows) {
    const int64_t rows = w.n - at < w.rows ? w.n - at : w.rows;
    for (int64_t k = 0; k < rows; ++k) w.y[at + k] = w.x[k * w.x_step + i];
  }
}

void thin_row(const ThinRow& r) {
  switch (r.outs) {
    case 1: return columns<1>(r);
    case 2: return columns<2>(r);
    case 3: return columns<3>(r);
    default: return columns<4>(r);
  }
}

}  // namespace peri::kernels::cpu::conv::PERI_ISA
