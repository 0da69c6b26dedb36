// The tile for AVX2: bytes are widened to 16 bits and multiplied in pairs, which cannot overflow for any pair of bytes
// (AVX2's byte products with a 16-bit sum would saturate).
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/integer/tile.hpp"

namespace peri::kernels::cpu::integer {
namespace avx2 {
namespace {
constexpr int kRows = 2, kVectors = 4;  // a vector holds two sums each of four columns

template <int kR>
void tile(const TileArgs& g, const int8_t* b, int64_t row, int32_t* c) {
  const uint8_t* const a = g.a + row * g.lda;
  const int64_t lda = g.lda, quads = (g.k + kQuad - 1) / kQuad;
  __m256i sums[kR][kVectors];
  for (int r = 0; r < kR; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm256_setzero_si256();
  for (int64_t q = 0; q < quads; ++q, b += kQuad * kPanel) {
    __m256i w[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      w[v] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + v * kPanel)));
#pragma GCC unroll 2
    for (int r = 0; r < kR; ++r) {
      int32_t four;
      std::memcpy(&four, a + r * lda + q * kQuad, sizeof four);
      const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(x, w[v]));
    }
  }
  for (int r = 0; r < kR; ++r)
    for (int v = 0; v < kVectors; v += 2) {
      // Lanes: columns 0 1 4 5 | 2 3 6 7 of eight.
      const __m256i pairs = _mm256_hadd_epi32(sums[r][v], sums[r][v + 1]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + (row + r) * kGroup * kPanel + v * 4),
                          _mm256_permute4x64_epi64(pairs, 0xd8));
    }
}

void run(const TileArgs& g) {
  for (int64_t p = 0; p < g.panels; ++p) {
    const int8_t* const b = g.b + p * g.panel_bytes;
    int32_t* const c = g.c + p * kPanel;
    int64_t row = 0;
    for (; row + kRows <= g.rows; row += kRows) tile<kRows>(g, b, row, c);
    if (row < g.rows) tile<1>(g, b, row, c);
  }
}
}  // namespace
}  // namespace avx2

const Tiles kTilesAvx2 = {&avx2::run, kQuad, 1};

}  // namespace peri::kernels::cpu::integer
