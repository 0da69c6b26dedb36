// Source of the depthwise tiles, compiled once per Isa like gemm/tile_body.hpp.
#pragma once

#include <utility>

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
    const float* add = s.add + at * s.add_ld + c;
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = sums[o] + read<V, kWhole>(add + o * s.add_ld, lanes);
  }
  if (s.clip) {
    const V low = V::set1(s.low), high = V::set1(s.high);
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = min_second(high, max_second(low, sums[o]));
  }
  float* y = g.y + at * g.y_pixel + c;
#pragma GCC unroll 8
  for (int o = 0; o < kColumns; ++o) {
    if (kWhole) {
      store(y + o * g.y_pixel, sums[o]);
    } else {
      store_n(y + o * g.y_pixel, sums[o], lanes);
    }
  }
}

// Sums of the sliding forms; `line`: the pixel of the tile's first tap.
template <class V, int kWidth, int kStride, int kColumns, bool kEdge, bool kWhole>
[[gnu::always_inline]] inline void slide(const DepthwiseTile& g, const float* line, int64_t c, int64_t lanes,
                                         V (&sums)[kColumns]) {
  constexpr int kPixels = (kColumns - 1) * kStride + kWidth;
  const float* w = g.w + c;
  for (int64_t ky = 0; ky < g.kh; ++ky) {
    V wv[kWidth];
#pragma GCC unroll 8
    for (int kx = 0; kx < kWidth; ++kx) wv[kx] = read<V, kWhole>(w + kx * g.w_step, lanes);
#pragma GCC unroll 32
    for (int i = 0; i < kPixels; ++i) {
      if (kEdge && i < kWidth - 1 && i < g.before) continue;
      if (kEdge && i > kPixels - kWidth && i >= kPixels - g.behind) continue;
      const V v = read<V, kWhole>(line + i * g.x_pixel, lanes);
#pragma GCC unroll 8
      for (int kx = 0; kx < kWidth; ++kx) {
        const int o = (i - kx) / kStride;
        if (i >= kx && (i - kx) % kStride == 0 && o < kColumns) sums[o] = fma(v, wv[kx], sums[o]);
      }
    }
    w += kWidth * g.w_step;
    line += g.x_row;
  }
}

// One vector of channels of the tile whose first column is `at`. kWidth = 0: the plain form with any kw.
template <class V, int kWidth, int kStride, int kColumns, bool kEdge, bool kWhole>
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
    const float* line = g.x + (g.first + at * kStride) * g.x_pixel + c;
    slide<V, kWidth, kStride, kColumns, kEdge, kWhole>(g, line, c, lanes, sums);
  }
  finish<V, kColumns, kWhole>(g, at, c, lanes, sums);
}

template <class V, int kWidth, int kStride, int kColumns, bool kEdge>
void tile(const DepthwiseTile& given) {
  const DepthwiseTile g = given;  // of its own: a store of a vector may else be one into it
  for (int64_t i = 0, at = 0; i < g.repeat; ++i, at += kColumns) {
    int64_t c = 0;
    for (; c + V::kLanes <= g.channels; c += V::kLanes) {
      vector<V, kWidth, kStride, kColumns, kEdge, true>(g, at, c, V::kLanes);
    }
    if (c < g.channels) vector<V, kWidth, kStride, kColumns, kEdge, false>(g, at, c, g.channels - c);
  }
}

// The function templates are named here, not read from a variable template, which Clang does not accept as a constant.
template <class V, int kWidth, int kStride, bool kEdge, int... kColumns>
constexpr void fill(DepthwiseFn (&to)[kMaxDepthwiseColumns], std::integer_sequence<int, kColumns...>) {
  ((to[kColumns] = &tile<V, kWidth, kStride, kColumns + 1, kEdge>), ...);
}

template <class V>
constexpr DepthwiseTable make_table() {
  constexpr auto all = std::make_integer_sequence<int, kMaxDepthwiseColumns>();
  DepthwiseTable table = {};
  fill<V, 0, 1, false>(table.plain, all);
  fill<V, 3, 1, false>(table.sliding[0][0], all);
  fill<V, 3, 2, false>(table.sliding[0][1], all);
  fill<V, 5, 1, false>(table.sliding[1][0], all);
  fill<V, 5, 2, false>(table.sliding[1][1], all);
  fill<V, 3, 1, true>(table.edge[0][0], all);
  fill<V, 3, 2, true>(table.edge[0][1], all);
  fill<V, 5, 1, true>(table.edge[1][0], all);
  fill<V, 5, 2, true>(table.edge[1][1], all);
  return table;
}

}  // namespace peri::kernels::cpu::depthwise_body
