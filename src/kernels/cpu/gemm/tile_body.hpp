// Source of the register tile, compiled once per Isa: included only by tile_<isa>.cpp, which supply the vector type V.
// Everything is a template over V, whose name differs by Isa, so that no symbol of one Isa can replace another's.
#pragma once

#include "kernels/cpu/gemm/tile.hpp"

namespace peri::kernels::cpu::tile_body {

template <class V, int kRows, int kVectors>
struct Sums {
  V at[kRows][kVectors];
};

// Position of vector v of a tile's row: kPerPanel vectors per panel.
template <class V, int kPerPanel>
[[gnu::always_inline]] inline const float* b_vector(const float* b, int64_t panel, int v) {
  return b + (v / kPerPanel) * panel + (v % kPerPanel) * V::kLanes;
}

template <class V, int kRows, int kVectors, class Each>
[[gnu::always_inline]] inline void for_each_vector(const Each& each) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) each(r, v);
  }
}

template <class V, int kRows, int kVectors, int kPerPanel>
[[gnu::always_inline]] inline void multiply(const TileArgs& g, Sums<V, kRows, kVectors>& sums) {
  const float* b = g.b;
  const float* ahead = g.prefetch;
  const int64_t b_step = g.b_step, b_panel = g.b_panel, ahead_step = g.prefetch_step, depth = g.k;
  const float* const* rows = g.rows;
  for (int64_t t = 0; t < g.taps; ++t, rows += kRows) {
    const float* a[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) a[r] = rows[r];
    for (int64_t i = 0; i < depth; ++i) {
      V bv[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) bv[v] = V::load(b_vector<V, kPerPanel>(b, b_panel, v));
      __builtin_prefetch(ahead, 0, 2);
      b += b_step;
      ahead += ahead_step;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V x = V::set1(a[r][i]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums.at[r][v] = fma(x, bv[v], sums.at[r][v]);
      }
    }
  }
}

// The register stage and the store. kWhole: all columns are stored; otherwise each vector has its own count.
template <class V, int kRows, int kVectors, bool kWhole>
[[gnu::always_inline]] inline void finish(const TileArgs& g, Sums<V, kRows, kVectors>& sums) {
  const auto read = [&](const float* p, int v) {
    return kWhole ? V::load(p + v * V::kLanes) : V::load_n(p + v * V::kLanes, g.n - v * V::kLanes);
  };
  if (g.last) {
    const RegisterStage& s = g.stage;
    if (s.bias != nullptr) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const V bias = read(s.bias, v);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) sums.at[r][v] = sums.at[r][v] + bias;
      }
    }
    if (s.add != nullptr) {
      for_each_vector<V, kRows, kVectors>(
          [&](int r, int v) { sums.at[r][v] = sums.at[r][v] + read(s.add + r * s.add_ld, v); });
    }
    if (s.clip) {
      const V low = V::set1(s.low), high = V::set1(s.high);
      for_each_vector<V, kRows, kVectors>(
          [&](int r, int v) { sums.at[r][v] = min_second(high, max_second(low, sums.at[r][v])); });
    }
  }
  for_each_vector<V, kRows, kVectors>([&](int r, int v) {
    float* p = g.c + r * g.ldc + v * V::kLanes;
    if (kWhole) {
      store(p, sums.at[r][v]);
    } else {
      store_n(p, sums.at[r][v], g.n - v * V::kLanes);
    }
  });
}

template <class V, int kRows, int kPerPanel, int kPanels>
void tile(const TileArgs& g) {
  constexpr int kVectors = kPerPanel * kPanels;
  Sums<V, kRows, kVectors> sums;
  const bool whole = g.n == kVectors * V::kLanes;
  if (!g.accumulate) {
    for_each_vector<V, kRows, kVectors>([&](int r, int v) { sums.at[r][v] = V::zero(); });
  } else {
    for_each_vector<V, kRows, kVectors>([&](int r, int v) {
      const float* p = g.c + r * g.ldc + v * V::kLanes;
      sums.at[r][v] = whole ? V::load(p) : V::load_n(p, g.n - v * V::kLanes);
    });
  }
  multiply<V, kRows, kVectors, kPerPanel>(g, sums);
  if (whole) {
    finish<V, kRows, kVectors, true>(g, sums);
  } else {
    finish<V, kRows, kVectors, false>(g, sums);
  }
}

}  // namespace peri::kernels::cpu::tile_body
