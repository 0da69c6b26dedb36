// The tile for AVX-512 with VNNI: up to six rows of four panels in registers.
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/integer/tile.hpp"

namespace peri::kernels::cpu::integer {
namespace avx512vnni {
namespace {
constexpr int kRows = 6;  // sums in registers: at most 6 x 4 of 32

template <int kR, int kP>
void tile(const TileArgs& g, int64_t row) {
  const uint8_t* const a = g.a + row * g.lda;
  const int64_t lda = g.lda, panel = g.panel_bytes, quads = (g.k + kQuad - 1) / kQuad;
  __m512i sums[kR][kP];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 4
    for (int p = 0; p < kP; ++p) sums[r][p] = _mm512_setzero_si512();
  const int8_t* b = g.b;
  for (int64_t q = 0; q < quads; ++q, b += kQuad * kPanel) {
    __m512i w[kP];
#pragma GCC unroll 4
    for (int p = 0; p < kP; ++p) w[p] = _mm512_loadu_si512(b + p * panel);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      int32_t four;
      std::memcpy(&four, a + r * lda + q * kQuad, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int p = 0; p < kP; ++p) sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], x, w[p]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 4
    for (int p = 0; p < kP; ++p) _mm512_storeu_si512(g.c + (row + r) * kGroup * kPanel + p * kPanel, sums[r][p]);
}

template <int kP>
void rows_of(const TileArgs& g) {
  static constexpr void (*kTails[])(const TileArgs&, int64_t) = {nullptr,      &tile<1, kP>, &tile<2, kP>,
                                                                 &tile<3, kP>, &tile<4, kP>, &tile<5, kP>};
  int64_t row = 0;
  for (; row + kRows <= g.rows; row += kRows) tile<kRows, kP>(g, row);
  if (row < g.rows) kTails[g.rows - row](g, row);
}

void run(const TileArgs& g) {
  static constexpr void (*kPanels[])(const TileArgs&) = {nullptr, &rows_of<1>, &rows_of<2>, &rows_of<3>, &rows_of<4>};
  kPanels[g.panels](g);
}
}  // namespace
}  // namespace avx512vnni

const Tiles kTilesVnni = {&avx512vnni::run, kQuad, 1};

}  // namespace peri::kernels::cpu::integer
