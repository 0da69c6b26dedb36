// Source of the Winograd transforms, compiled once per Isa like gemm/tile_body.hpp.
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
// Points 0, +-a, +-b, infinity with a = sqrt(1/2), b = sqrt(2): largest error 0.8 of that of 0, +-1, +-2, infinity.
constexpr float kA = 0.70710678f, kB = 1.41421356f;

template <class V>
[[gnu::always_inline]] inline void input_axis(const V (&d)[6], V (&t)[6]) {
  const V two_and_half = V::set1(2.5f), two = V::set1(2), half = V::set1(0.5f), a = V::set1(kA), b = V::set1(kB);
  t[0] = fnma(two_and_half, d[2], d[0] + d[4]);
  const V even_a = fnma(two, d[2], d[4]), odd_a = fnma(two, d[1], d[3]);
  t[1] = fma(a, odd_a, even_a);
  t[2] = fnma(a, odd_a, even_a);
  const V even_b = fnma(half, d[2], d[4]), odd_b = fnma(half, d[1], d[3]);
  t[3] = fma(b, odd_b, even_b);
  t[4] = fnma(b, odd_b, even_b);
  t[5] = fnma(two_and_half, d[3], d[1] + d[5]);
}

// A^T s for one column of the sums.
template <class V>
[[gnu::always_inline]] inline void output_axis(const V (&s)[4], V (&t)[2]) {
  t[0] = s[0] + s[1] + s[2];
  t[1] = s[1] - s[2] - s[3];
}
template <class V>
[[gnu::always_inline]] inline void output_axis(const V (&s)[6], V (&t)[4]) {
  const V even_a = s[1] + s[2], odd_a = s[1] - s[2], even_b = s[3] + s[4], odd_b = s[3] - s[4];
  t[0] = s[0] + even_a + even_b;
  t[1] = fma(V::set1(kB), odd_b, V::set1(kA) * odd_a);
  t[2] = fma(V::set1(2), even_b, V::set1(0.5f) * even_a);
  t[3] = fma(V::set1(2 * kB), odd_b, fma(V::set1(kA / 2), odd_a, s[5]));
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
