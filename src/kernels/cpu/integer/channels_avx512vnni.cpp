// Depthwise sums for AVX-512 with VNNI: four rows of the image are one operand of a byte product.
#include <immintrin.h>

#include "kernels/cpu/integer/channels.hpp"

namespace peri::kernels::cpu::integer::avx512vnni {
namespace {
constexpr int64_t kVectors = kGroup;  // of 16 channels
constexpr int kPixels = 8;            // at once, in registers

// Four rows of 64 bytes become four vectors, each of 16 channels whose lanes hold a byte of each row.
void interleave(const __m512i (&rows)[kQuad], int64_t vectors, int32_t* to) {
  // Lane l of the i-th result is made of lane l of the rows: four channels of it from 16 i + 4 l on.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i r[kQuad];
  for (int k = 0; k < kQuad; ++k) r[k] = _mm512_permutexvar_epi32(order, rows[k]);
  const __m512i a = _mm512_unpacklo_epi8(r[0], r[1]), b = _mm512_unpackhi_epi8(r[0], r[1]),
                c = _mm512_unpacklo_epi8(r[2], r[3]), d = _mm512_unpackhi_epi8(r[2], r[3]);
  const __m512i out[kVectors] = {_mm512_unpacklo_epi16(a, c), _mm512_unpackhi_epi16(a, c), _mm512_unpacklo_epi16(b, d),
                                 _mm512_unpackhi_epi16(b, d)};
  for (int64_t v = 0; v < vectors; ++v) _mm512_storeu_si512(to + v * kPanel, out[v]);
}

void read_columns(const ChannelArgs& g) {
  const __mmask64 lanes = g.channels >= kRowOfSums ? ~__mmask64{0} : (__mmask64{1} << g.channels) - 1;
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(g.flip)),
                edge = _mm512_set1_epi8(static_cast<char>(g.edge ^ g.flip));
  const int64_t vectors = (g.channels + kPanel - 1) / kPanel;
  int32_t* to = g.columns;
  for (int64_t k = 0, x = g.first; k < g.count; ++k, ++x)
    for (int64_t quad = 0; quad < g.quads; ++quad, to += kRowOfSums) {
      __m512i rows[kQuad];
      for (int64_t i = 0; i < kQuad; ++i) {
        const int64_t ky = quad * kQuad + i;
        const uint8_t* const row = ky < g.kh && x >= 0 && x < g.width ? g.rows[ky] : nullptr;
        rows[i] = row ? _mm512_xor_si512(flip, _mm512_maskz_loadu_epi8(lanes, row + x * g.step)) : edge;
      }
      interleave(rows, vectors, to);
    }
}

template <int kCount, bool kZeros>
void pixels_of(const ChannelArgs& g, int64_t vector, int64_t pixel) {
  const int64_t next = g.sw * g.quads * kRowOfSums;  // from pixel to pixel
  const int32_t* const base = g.columns + pixel * next + vector * kPanel;
  __m512i sums[kCount], totals[kCount];
#pragma GCC unroll 8
  for (int p = 0; p < kCount; ++p) sums[p] = totals[p] = _mm512_setzero_si512();
  const int8_t* w = g.w + vector * kPanel * kQuad;
  for (int64_t kx = 0; kx < g.kw; ++kx)
    for (int64_t quad = 0; quad < g.quads; ++quad, w += kRowOfSums * kQuad) {
      const __m512i by = _mm512_loadu_si512(w);
      const __m512i ones =
          _mm512_set1_epi32(g.kh - quad * kQuad >= kQuad ? 0x01010101 : (1 << 8 * (g.kh % kQuad)) / 255);
      const int32_t* const x = base + (kx * g.dw * g.quads + quad) * kRowOfSums;
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p) {
        const __m512i four = _mm512_loadu_si512(x + p * next);
        sums[p] = _mm512_dpbusd_epi32(sums[p], four, by);
        if constexpr (kZeros) totals[p] = _mm512_dpbusd_epi32(totals[p], four, ones);
      }
    }
  if constexpr (kZeros) {
    const __m512i zero = _mm512_maskz_loadu_epi32(
        static_cast<__mmask16>((1U << (g.channels - vector * kPanel < kPanel ? g.channels - vector * kPanel : kPanel)) -
                               1),
        g.zeros + vector * kPanel);
    for (int p = 0; p < kCount; ++p) sums[p] = _mm512_sub_epi32(sums[p], _mm512_mullo_epi32(zero, totals[p]));
  }
#pragma GCC unroll 8
  for (int p = 0; p < kCount; ++p) _mm512_storeu_si512(g.c + (pixel + p) * kRowOfSums + vector * kPanel, sums[p]);
}

template <bool kZeros>
void sums(const ChannelArgs& g) {
  for (int64_t vector = 0; vector * kPanel < g.channels; ++vector) {
    int64_t pixel = 0;
    for (; pixel + kPixels <= g.pixels; pixel += kPixels) pixels_of<kPixels, kZeros>(g, vector, pixel);
    for (; pixel + 2 <= g.pixels; pixel += 2) pixels_of<2, kZeros>(g, vector, pixel);
    if (pixel < g.pixels) pixels_of<1, kZeros>(g, vector, pixel);
  }
}
}  // namespace

void run_channels(const ChannelArgs& g) {
  read_columns(g);
  g.zeros == nullptr ? sums<false>(g) : sums<true>(g);
}

}  // namespace peri::kernels::cpu::integer::avx512vnni
