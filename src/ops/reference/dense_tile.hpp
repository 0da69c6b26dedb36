// Register tiles of the float64 product, for vectors of W doubles: MR rows by NV vectors. Included once for each ISA.
#pragma once

#include <cstdint>

namespace peri::ops {

// c[m, n] += packed a times packed b; see dense.cpp for the packing.
void dense_block_avx2(int64_t m, int64_t n, int64_t depth, const double* a, const double* b, double* c, int64_t c_step);
void dense_block_avx512(int64_t m, int64_t n, int64_t depth, const double* a, const double* b, double* c,
                        int64_t c_step);

namespace {

template <int W>
struct Lanes {
  typedef double Type __attribute__((vector_size(W * 8), aligned(8), may_alias));
};

template <int W, int MR, int NV>
[[gnu::always_inline]] inline void tile(int64_t depth, const double* a, const double* b, double* c, int64_t c_step) {
  using V = typename Lanes<W>::Type;
  V acc[MR][NV] = {};
  for (int64_t p = 0; p < depth; ++p, a += MR, b += W * NV) {
    V row[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) row[j] = reinterpret_cast<const V*>(b)[j];
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[i][j] += row[j] * a[i];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) reinterpret_cast<V*>(c + i * c_step)[j] += acc[i][j];
  }
}

// All register tiles of one packed block pair.
template <int W, int MR, int NV>
[[gnu::always_inline]] inline void block(int64_t m, int64_t n, int64_t depth, const double* a, const double* b,
                                         double* c, int64_t c_step) {
  constexpr int64_t kWide = W * NV;
  for (int64_t j = 0; j < n; j += kWide) {
    for (int64_t i = 0; i < m; i += MR) {
      const double* pa = a + i * depth;
      const double* pb = b + j * depth;
      if (i + MR <= m && j + kWide <= n) {
        tile<W, MR, NV>(depth, pa, pb, c + i * c_step + j, c_step);
        continue;
      }
      double edge[MR * kWide] = {};
      tile<W, MR, NV>(depth, pa, pb, edge, kWide);
      for (int64_t r = 0; r < MR && i + r < m; ++r)
        for (int64_t s = 0; s < kWide && j + s < n; ++s) c[(i + r) * c_step + j + s] += edge[r * kWide + s];
    }
  }
}

}  // namespace
}  // namespace peri::ops
