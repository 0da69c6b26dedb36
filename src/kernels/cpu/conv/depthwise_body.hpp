// The text of the depthwise tiles, compiled once per Isa like gemm/tile_body.hpp.
#pragma once

#include "kernels/cpu/conv/depthwise.hpp"

namespace peri::kernels::cpu::depthwise_body {

template <class V, bool kWhole>
[[gnu::always_inline]] inline V read(const float* p, int64_t lanes) {
  return kWhole ? V::load(p) : V::load_n(p, lanes);
}

template <class V, int kColumns, bool kWhole>
[[gnu::always_inline]] inline void finish(const DepthwiseTile& g, int64_t at, int64_t c, int64_t lanes,
                                          V (&sums)[kColumns]) {
  const RegisterStage& s = g.stage;
  if (s.bias != nullptr) {
    const V bias = read<V, kWhole>(s.bias + c, lanes);
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = sums[o] + bias;
  }
  if (s.add != nullptr) {
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = sums[o] + read<V, kWhole>(s.add + (at + o) * s.add_ld + c, lanes);
  }
  if (s.clip) {
    const V low = V::set1(s.low), high = V::set1(s.high);
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = min_second(high, max_second(low, sums[o]));
  }
#pragma GCC unroll 8
  for (int o = 0; o < kColumns; ++o) {
    float* p = g.y + (at + o) * g.y_pixel + c;
    if (kWhole) {
      store(p, sums[o]);
    } else {
      store_n(p, sums[o], lanes);
    }
  }
}

// Sums of the sliding forms, x: the tile's first pixel in the strided one.
template <class V, int kWidth, int kStride, int kColumns, bool kTable, bool kWhole>
[[gnu::always_inline]] inline void slide(const DepthwiseTile& g, const float* x, int64_t c, int64_t lanes,
                                         V (&sums)[kColumns]) {
  constexpr int kPixels = (kColumns - 1) * kStride + kWidth;
  const float* w = g.w + c;
  const float* const* pixels = g.pixels;
  const float* line = x + c;
  for (int64_t ky = 0; ky < g.kh; ++ky) {
    V wv[kWidth];
#pragma GCC unroll 8
    for (int kx = 0; kx < kWidth; ++kx) wv[kx] = read<V, kWhole>(w + kx * g.w_step, lanes);
    const float* at = line;
#pragma GCC unroll 32
    for (int i = 0; i < kPixels; ++i, at += g.x_pixel) {
      const V v = read<V, kWhole>(kTable ? pixels[i] + c : at, lanes);
#pragma GCC unroll 8
      for (int kx = 0; kx < kWidth; ++kx) {
        const int o = (i - kx) / kStride;
        if (i >= kx && (i - kx) % kStride == 0 && o < kColumns) sums[o] = fma(v, wv[kx], sums[o]);
      }
    }
    w += kWidth * g.w_step;
    pixels += kPixels;
    line += g.x_row;
  }
}

// One vector of channels of the tile whose first column is `at`. kWidth = 0: the plain form with any kw.
template <class V, int kWidth, int kStride, int kColumns, bool kTable, bool kWhole>
[[gnu::always_inline]] inline void vector(const DepthwiseTile& g, int64_t at, int64_t c, int64_t lanes) {
  V sums[kColumns];
#pragma GCC unroll 8
  for (int o = 0; o < kColumns; ++o) sums[o] = V::zero();
  if constexpr (kWidth == 0) {
    const float* w = g.w + c;
    const float* const* pixels = g.pixels;
    const int64_t taps = g.kh * g.kw;
    for (int64_t t = 0; t < taps; ++t, w += g.w_step, pixels += kColumns) {
      const V wv = read<V, kWhole>(w, lanes);
#pragma GCC unroll 8
      for (int o = 0; o < kColumns; ++o) sums[o] = fma(read<V, kWhole>(pixels[o] + c, lanes), wv, sums[o]);
    }
  } else {
    slide<V, kWidth, kStride, kColumns, kTable, kWhole>(g, g.x + at * kStride * g.x_pixel, c, lanes, sums);
  }
  finish<V, kColumns, kWhole>(g, at, c, lanes, sums);
}

template <class V, int kWidth, int kStride, int kColumns, bool kTable>
void tile(const DepthwiseTile& g) {
  for (int64_t i = 0, at = 0; i < g.repeat; ++i, at += kColumns) {
    int64_t c = 0;
    for (; c + V::kLanes <= g.channels; c += V::kLanes) {
      vector<V, kWidth, kStride, kColumns, kTable, true>(g, at, c, V::kLanes);
    }
    if (c < g.channels) vector<V, kWidth, kStride, kColumns, kTable, false>(g, at, c, g.channels - c);
  }
}

template <class V, int kWidth, int kStride, bool kTable>
constexpr DepthwiseFn kTiles[] = {&tile<V, kWidth, kStride, 1, kTable>, &tile<V, kWidth, kStride, 2, kTable>,
                                  &tile<V, kWidth, kStride, 3, kTable>, &tile<V, kWidth, kStride, 4, kTable>,
                                  &tile<V, kWidth, kStride, 5, kTable>, &tile<V, kWidth, kStride, 6, kTable>,
                                  &tile<V, kWidth, kStride, 7, kTable>, &tile<V, kWidth, kStride, 8, kTable>};

template <class V, bool kTable>
consteval void fill(DepthwiseFn (&to)[2][2][kMaxDepthwiseColumns]) {
  for (int i = 0; i < kMaxDepthwiseColumns; ++i) {
    to[0][0][i] = kTiles<V, 3, 1, kTable>[i];
    to[0][1][i] = kTiles<V, 3, 2, kTable>[i];
    to[1][0][i] = kTiles<V, 5, 1, kTable>[i];
    to[1][1][i] = kTiles<V, 5, 2, kTable>[i];
  }
}

template <class V>
consteval DepthwiseTable make_table() {
  DepthwiseTable table = {};
  for (int i = 0; i < kMaxDepthwiseColumns; ++i) table.plain[i] = kTiles<V, 0, 1, true>[i];
  fill<V, true>(table.sliding);
  fill<V, false>(table.strided);
  return table;
}

}  // namespace peri::kernels::cpu::depthwise_body
