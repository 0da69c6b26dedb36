// The products of words.hpp: bytes are widened to 16 bits, and pairs of products are one sum of 32 bits.
#include "kernels/cpu/cell/words.hpp"

#include <cstring>

#include "kernels/cpu/integer/tile.hpp"
#include "kernels/cpu/simd/vec_avx2.hpp"

namespace peri::kernels::cpu::cell::avx2 {
namespace {
using integer::kPanel;
using integer::kQuad;
using simd::avx2::F32x8;
constexpr int kRows = 3, kVectors = 4;  // a vector holds two sums each of four columns
constexpr int64_t kMaxQuads = 128;      // 512 products of less than 2^22

// Sums of quads [0, quads), added to `total`: of columns 0 to 7, and 8 to 15.
template <int kR>
PERI_SIMD void add_sums(const int16_t* x, int64_t ldx, const int8_t* b, int64_t quads, __m256 (&total)[kR][2]) {
  __m256i sums[kR][kVectors];
  for (int r = 0; r < kR; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm256_setzero_si256();
  for (int64_t q = 0; q < quads; ++q, x += kQuad, b += kQuad * kPanel) {
    __m256i four[kR];
#pragma GCC unroll 3
    for (int r = 0; r < kR; ++r) {
      int64_t bits;
      std::memcpy(&bits, x + r * ldx, sizeof bits);
      four[r] = _mm256_set1_epi64x(bits);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + v * kPanel)));
#pragma GCC unroll 3
      for (int r = 0; r < kR; ++r) sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(four[r], w));
    }
  }
  for (int r = 0; r < kR; ++r)
    for (int v = 0; v < kVectors; v += 2) {
      // Lanes: columns 0 1 4 5 | 2 3 6 7 of eight.
      const __m256i pairs = _mm256_hadd_epi32(sums[r][v], sums[r][v + 1]);
      const __m256 some = _mm256_cvtepi32_ps(_mm256_permute4x64_epi64(pairs, 0xd8));
      total[r][v / 2] = _mm256_add_ps(total[r][v / 2], some);
    }
}

// Rows [row, row + kR) times the panel whose first column is `column`.
template <int kR>
void tile(const Words& by, int64_t row, int64_t column) {
  const int16_t* const x = by.x + row * by.ldx;
  const int8_t* const b = by.b + column / kPanel * by.panel_bytes;
  const int64_t quads = (by.k + kQuad - 1) / kQuad;
  __m256 total[kR][2];
  for (int r = 0; r < kR; ++r) total[r][0] = total[r][1] = _mm256_setzero_ps();
  for (int64_t q = 0; q < quads; q += kMaxQuads)
    add_sums<kR>(x + q * kQuad, by.ldx, b + q * kQuad * kPanel, quads - q < kMaxQuads ? quads - q : kMaxQuads, total);
  for (int r = 0; r < kR; ++r)
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = column + half * F32x8::kLanes, n = by.n - at;
      if (n <= 0) continue;
      const F32x8 sum = F32x8{total[r][half]} * F32x8::set1(by.steps[row + r]);
      const F32x8 add = by.add ? F32x8::load_n(by.add + at, n) : F32x8::zero();
      store_n(by.y + (row + r) * by.ldy + at, fma(sum, F32x8::load_n(by.scale + at, n), add), n);
    }
}
}  // namespace

void interleave(const uint8_t* high, const uint8_t* low, int64_t n, int16_t* to) {
  const __m128i middle = _mm_set1_epi16(static_cast<int16_t>(0x8000));
  for (int64_t j = 0; j < n; j += 16) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high + j)),
                  l = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low + j));
    __m128i* const out = reinterpret_cast<__m128i*>(to + j);
    _mm_storeu_si128(out, _mm_xor_si128(_mm_unpacklo_epi8(l, h), middle));
    _mm_storeu_si128(out + 1, _mm_xor_si128(_mm_unpackhi_epi8(l, h), middle));
  }
}

void multiply(const Words& by) {
  for (int64_t column = 0; column < by.n; column += kPanel) {
    int64_t row = 0;
    for (; row + kRows <= by.rows; row += kRows) tile<kRows>(by, row, column);
    if (by.rows - row == 2) tile<2>(by, row, column);
    if (by.rows - row == 1) tile<1>(by, row, column);
  }
}

}  // namespace peri::kernels::cpu::cell::avx2
