// The text of the depthwise tiles, compiled once per Isa like gemm/tile_body.hpp.
#pragma once

#include "kernels/cpu/conv/depthwise.hpp"

namespace peri::kernels::cpu::depthwise_body {

template <class V, bool kWhole>
[[gnu::always_inline]] inline V read(const float* p, int64_t lanes) {
  return kWhole ? V::load(p) : V::load_n(p, lanes);
}

template <class V, int kColumns, bool kWhole>
[[gnu::always_inline]] inline void finish(const DepthwiseTile& g, int64_t c, int64_t lanes, V (&sums)[kColumns]) {
  const RegisterStage& s = g.stage;
  if (s.bias != nullptr) {
    const V bias = read<V, kWhole>(s.bias + c, lanes);
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = sums[o] + bias;
  }
  if (s.add != nullptr) {
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = sums[o] + read<V, kWhole>(s.add + o * s.add_ld + c, lanes);
  }
  if (s.clip) {
    const V low = V::set1(s.low), high = V::set1(s.high);
#pragma GCC unroll 8
    for (int o = 0; o < kColumns; ++o) sums[o] = min_second(high, max_second(low, sums[o]));
  }
#pragma GCC unroll 8
  for (int o = 0; o < kColumns; ++o) {
    float* p = g.y + o * g.y_pixel + c;
    if (kWhole) {
      store(p, sums[o]);
    } else {
      store_n(p, sums[o], lanes);
    }
  }
}

// One vector of channels. kWidth = 0: the plain form with any kw.
template <class V, int kWidth, int kStride, int kColumns, bool kWhole>
[[gnu::always_inline]] inline void vector(const DepthwiseTile& g, int64_t c, int64_t lanes) {
  V sums[kColumns];
#pragma GCC unroll 8
  for (int o = 0; o < kColumns; ++o) sums[o] = V::zero();
  const float* w = g.w + c;
  const float* const* pixels = g.pixels;
  if constexpr (kWidth == 0) {
    const int64_t taps = g.kh * g.kw;
    for (int64_t t = 0; t < taps; ++t, w += g.w_step, pixels += kColumns) {
      const V wv = read<V, kWhole>(w, lanes);
#pragma GCC unroll 8
      for (int o = 0; o < kColumns; ++o) sums[o] = fma(read<V, kWhole>(pixels[o] + c, lanes), wv, sums[o]);
    }
  } else {
    constexpr int kPixels = (kColumns - 1) * kStride + kWidth;
    for (int64_t ky = 0; ky < g.kh; ++ky, w += kWidth * g.w_step, pixels += kPixels) {
      V wv[kWidth];
#pragma GCC unroll 8
      for (int kx = 0; kx < kWidth; ++kx) wv[kx] = read<V, kWhole>(w + kx * g.w_step, lanes);
#pragma GCC unroll 32
      for (int i = 0; i < kPixels; ++i) {
        const V x = read<V, kWhole>(pixels[i] + c, lanes);
#pragma GCC unroll 8
        for (int kx = 0; kx < kWidth; ++kx) {
          const int o = (i - kx) / kStride;
          if (i >= kx && (i - kx) % kStride == 0 && o < kColumns) sums[o] = fma(x, wv[kx], sums[o]);
        }
      }
    }
  }
  finish<V, kColumns, kWhole>(g, c, lanes, sums);
}

template <class V, int kWidth, int kStride, int kColumns>
void tile(const DepthwiseTile& g) {
  int64_t c = 0;
  for (; c + V::kLanes <= g.channels; c += V::kLanes) vector<V, kWidth, kStride, kColumns, true>(g, c, V::kLanes);
  if (c < g.channels) vector<V, kWidth, kStride, kColumns, false>(g, c, g.channels - c);
}

#define PERI_DEPTHWISE_COLUMNS(V, W, S)                                                                               \
  {                                                                                                                   \
    &tile<V, W, S, 1>, &tile<V, W, S, 2>, &tile<V, W, S, 3>, &tile<V, W, S, 4>, &tile<V, W, S, 5>, &tile<V, W, S, 6>, \
        &tile<V, W, S, 7>, &tile<V, W, S, 8>                                                                          \
  }

template <class V>
constexpr DepthwiseTable kTable = {
    .plain = PERI_DEPTHWISE_COLUMNS(V, 0, 1),
    .sliding = {{PERI_DEPTHWISE_COLUMNS(V, 3, 1), PERI_DEPTHWISE_COLUMNS(V, 3, 2)},
                {PERI_DEPTHWISE_COLUMNS(V, 5, 1), PERI_DEPTHWISE_COLUMNS(V, 5, 2)}},
};

}  // namespace peri::kernels::cpu::depthwise_body
