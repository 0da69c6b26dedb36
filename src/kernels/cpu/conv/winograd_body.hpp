// The text of the Winograd transforms, compiled once per Isa like gemm/tile_body.hpp.
#pragma once

#include "kernels/cpu/conv/winograd.hpp"

namespace peri::kernels::cpu::winograd_body {

template <class V, bool kWhole>
[[gnu::always_inline]] inline V read(const float* p, int64_t lanes) {
  return kWhole ? V::load(p) : V::load_n(p, lanes);
}
template <class V, bool kWhole>
[[gnu::always_inline]] inline void write(float* p, V v, int64_t lanes) {
  if (kWhole) {
    store(p, v);
  } else {
    store_n(p, v, lanes);
  }
}

// B^T d for one column of a tile.
template <class V>
[[gnu::always_inline]] inline void input_axis(const V (&d)[4], V (&t)[4]) {
  t[0] = d[0] - d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[1] - d[3];
}
template <class V>
[[gnu::always_inline]] inline void input_axis(const V (&d)[6], V (&t)[6]) {
  const V four = V::set1(4), five = V::set1(5), two = V::set1(2);
  t[0] = fma(four, d[0], fnma(five, d[2], d[4]));
  const V a = fnma(four, d[2], d[4]), b = fnma(four, d[1], d[3]);
  t[1] = a + b;
  t[2] = a - b;
  const V c = d[4] - d[2], e = d[3] - d[1];
  t[3] = fma(two, e, c);
  t[4] = fnma(two, e, c);
  t[5] = fma(four, d[1], fnma(five, d[3], d[5]));
}

// A^T s for one column of the sums.
template <class V>
[[gnu::always_inline]] inline void output_axis(const V (&s)[4], V (&t)[2]) {
  t[0] = s[0] + s[1] + s[2];
  t[1] = s[1] - s[2] - s[3];
}
template <class V>
[[gnu::always_inline]] inline void output_axis(const V (&s)[6], V (&t)[4]) {
  const V a = s[1] + s[2], b = s[1] - s[2], c = s[3] + s[4], d = s[3] - s[4];
  t[0] = s[0] + a + c;
  t[1] = fma(V::set1(2), d, b);
  t[2] = fma(V::set1(4), c, a);
  t[3] = fma(V::set1(8), d, b) + s[5];
}

template <class V, int kSide, bool kWhole>
[[gnu::always_inline]] inline void input_vector(const WinogradInput& g, int64_t c, int64_t lanes) {
  V half[kSide][kSide];
#pragma GCC unroll 8
  for (int j = 0; j < kSide; ++j) {
    V d[kSide], t[kSide];
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) d[i] = read<V, kWhole>(g.pixels[i * kSide + j] + c, lanes);
    input_axis(d, t);
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) half[i][j] = t[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kSide; ++i) {
    V t[kSide];
    input_axis(half[i], t);
#pragma GCC unroll 8
    for (int j = 0; j < kSide; ++j) write<V, kWhole>(g.out + (i * kSide + j) * g.step + c, t[j], lanes);
  }
}

template <class V, int kSide>
void input(const WinogradInput& g) {
  int64_t c = 0;
  for (; c + V::kLanes <= g.channels; c += V::kLanes) input_vector<V, kSide, true>(g, c, V::kLanes);
  if (c < g.channels) input_vector<V, kSide, false>(g, c, g.channels - c);
}

template <class V, int kSide, bool kWhole>
[[gnu::always_inline]] inline void output_vector(const WinogradOutput& g, int64_t c, int64_t lanes) {
  constexpr int kTile = kSide - 2;
  V half[kTile][kSide];
#pragma GCC unroll 8
  for (int j = 0; j < kSide; ++j) {
    V s[kSide], t[kTile];
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) s[i] = V::load(g.sums + (i * kSide + j) * g.step + c);
    output_axis(s, t);
#pragma GCC unroll 8
    for (int i = 0; i < kTile; ++i) half[i][j] = t[i];
  }
  const RegisterStage& stage = g.stage;
  const V bias = stage.bias != nullptr ? read<V, kWhole>(stage.bias + c, lanes) : V::zero();
  const V low = V::set1(stage.low), high = V::set1(stage.high);
#pragma GCC unroll 8
  for (int i = 0; i < kTile; ++i) {
    if (i >= g.rows) break;
    V t[kTile];
    output_axis(half[i], t);
#pragma GCC unroll 8
    for (int j = 0; j < kTile; ++j) {
      if (j >= g.columns) break;
      V v = t[j] + bias;
      if (stage.add != nullptr) {
        v = v + read<V, kWhole>(stage.add + i * g.add_row + j * g.add_column + c, lanes);
      }
      if (stage.clip) v = min_second(high, max_second(low, v));
      write<V, kWhole>(g.y + i * g.y_row + j * g.y_column + c, v, lanes);
    }
  }
}

template <class V, int kSide>
void output(const WinogradOutput& g) {
  int64_t c = 0;
  for (; c + V::kLanes <= g.channels; c += V::kLanes) output_vector<V, kSide, true>(g, c, V::kLanes);
  if (c < g.channels) output_vector<V, kSide, false>(g, c, g.channels - c);
}

template <class V>
constexpr WinogradTable kWinograd = {&input<V, 4>, &input<V, 6>, &output<V, 4>, &output<V, 6>};

}  // namespace peri::kernels::cpu::winograd_body
