// AVX2 vectors: 8 floats, 8 int32, their masks, and two halves of 4 doubles. Names and semantics equal vec_avx512.hpp,
// so that a kernel body is written once. Include only in files compiled for AVX2, FMA and F16C (or more). Everything is
// forced inline: a symbol of one instruction set never replaces another's.
#pragma once

#include <immintrin.h>

#include <cstdint>

#ifndef PERI_SIMD
#define PERI_SIMD static inline __attribute__((always_inline))
#define PERI_SIMD_MEMBER inline __attribute__((always_inline))
#endif

namespace peri::simd::avx2 {

// Lane masks: all bits of a lane set or clear.
struct M32x8 {
  __m256 v;
};
PERI_SIMD M32x8 operator&(M32x8 a, M32x8 b) { return {_mm256_and_ps(a.v, b.v)}; }
PERI_SIMD M32x8 operator|(M32x8 a, M32x8 b) { return {_mm256_or_ps(a.v, b.v)}; }
PERI_SIMD M32x8 operator^(M32x8 a, M32x8 b) { return {_mm256_xor_ps(a.v, b.v)}; }
PERI_SIMD M32x8 operator~(M32x8 a) { return {_mm256_xor_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
PERI_SIMD bool any(M32x8 a) { return _mm256_movemask_ps(a.v) != 0; }
PERI_SIMD bool all(M32x8 a) { return _mm256_movemask_ps(a.v) == 0xff; }
PERI_SIMD uint32_t bits_of(M32x8 a) { return static_cast<uint32_t>(_mm256_movemask_ps(a.v)); }

// The first n of 8 lanes, n >= 0 (n >= 8: all).
PERI_SIMD __m256i first_lanes(int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : static_cast<int>(n)), lane);
}
PERI_SIMD M32x8 mask_of_first(int64_t n) { return {_mm256_castsi256_ps(first_lanes(n))}; }

struct I32x8 {
  __m256i v;
  static constexpr int kLanes = 8;
  static PERI_SIMD_MEMBER I32x8 load(const int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  static PERI_SIMD_MEMBER I32x8 load_n(const int32_t* p, int64_t n) {
    return {_mm256_maskload_epi32(p, first_lanes(n))};
  }
  static PERI_SIMD_MEMBER I32x8 set1(int32_t x) { return {_mm256_set1_epi32(x)}; }
};
PERI_SIMD void store(int32_t* p, I32x8 a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
PERI_SIMD void store_n(int32_t* p, I32x8 a, int64_t n) { _mm256_maskstore_epi32(p, first_lanes(n), a.v); }
PERI_SIMD I32x8 operator+(I32x8 a, I32x8 b) { return {_mm256_add_epi32(a.v, b.v)}; }
PERI_SIMD I32x8 operator-(I32x8 a, I32x8 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
PERI_SIMD I32x8 operator*(I32x8 a, I32x8 b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
PERI_SIMD I32x8 operator&(I32x8 a, I32x8 b) { return {_mm256_and_si256(a.v, b.v)}; }
PERI_SIMD I32x8 operator|(I32x8 a, I32x8 b) { return {_mm256_or_si256(a.v, b.v)}; }
PERI_SIMD I32x8 operator^(I32x8 a, I32x8 b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int N>
PERI_SIMD I32x8 shift_left(I32x8 a) {
  return {_mm256_slli_epi32(a.v, N)};
}
template <int N>
PERI_SIMD I32x8 shift_right(I32x8 a) {
  return {_mm256_srai_epi32(a.v, N)};
}  // arithmetic
PERI_SIMD I32x8 min(I32x8 a, I32x8 b) { return {_mm256_min_epi32(a.v, b.v)}; }
PERI_SIMD I32x8 max(I32x8 a, I32x8 b) { return {_mm256_max_epi32(a.v, b.v)}; }
PERI_SIMD M32x8 eq(I32x8 a, I32x8 b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))}; }
PERI_SIMD M32x8 gt(I32x8 a, I32x8 b) { return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.v, b.v))}; }
PERI_SIMD I32x8 select(M32x8 m, I32x8 a, I32x8 b) { return {_mm256_blendv_epi8(b.v, a.v, _mm256_castps_si256(m.v))}; }
// The largest lane.
PERI_SIMD int32_t max_lanes(I32x8 a) {
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

struct F32x8 {
  __m256 v;
  static constexpr int kLanes = 8;
  using Int = I32x8;
  using Mask = M32x8;
  static PERI_SIMD_MEMBER F32x8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  // The first n lanes from memory, the rest zero; touches no byte beyond p + n.
  static PERI_SIMD_MEMBER F32x8 load_n(const float* p, int64_t n) { return {_mm256_maskload_ps(p, first_lanes(n))}; }
  static PERI_SIMD_MEMBER F32x8 set1(float x) { return {_mm256_set1_ps(x)}; }
  static PERI_SIMD_MEMBER F32x8 zero() { return {_mm256_setzero_ps()}; }
  // 8 values of p[0], p[stride], ...
  static PERI_SIMD_MEMBER F32x8 gather(const float* p, int64_t s) {
    return {_mm256_setr_ps(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s])};
  }
  static PERI_SIMD_MEMBER F32x8 load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static PERI_SIMD_MEMBER F32x8 load_bf16(const uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
};
PERI_SIMD void store(float* p, F32x8 a) { _mm256_storeu_ps(p, a.v); }
PERI_SIMD void store_n(float* p, F32x8 a, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), a.v); }
// Rounds to nearest even; NaN stays NaN.
PERI_SIMD void store_f16(uint16_t* p, F32x8 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PERI_SIMD void store_bf16(uint16_t* p, F32x8 a) {
  const __m256i x = _mm256_castps_si256(a.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  const __m256i r = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan)), 16);
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}
PERI_SIMD F32x8 operator+(F32x8 a, F32x8 b) { return {_mm256_add_ps(a.v, b.v)}; }
PERI_SIMD F32x8 operator-(F32x8 a, F32x8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
PERI_SIMD F32x8 operator*(F32x8 a, F32x8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
PERI_SIMD F32x8 operator/(F32x8 a, F32x8 b) { return {_mm256_div_ps(a.v, b.v)}; }
PERI_SIMD F32x8 operator-(F32x8 a) { return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f))}; }
PERI_SIMD F32x8 fma(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }    //  a*b + c
PERI_SIMD F32x8 fnma(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }  // -a*b + c
PERI_SIMD F32x8 sqrt(F32x8 a) { return {_mm256_sqrt_ps(a.v)}; }
PERI_SIMD F32x8 abs(F32x8 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
PERI_SIMD F32x8 sign_bit(F32x8 a) { return {_mm256_and_ps(a.v, _mm256_set1_ps(-0.0f))}; }
PERI_SIMD F32x8 bit_or(F32x8 a, F32x8 b) { return {_mm256_or_ps(a.v, b.v)}; }
PERI_SIMD F32x8 bit_xor(F32x8 a, F32x8 b) { return {_mm256_xor_ps(a.v, b.v)}; }
PERI_SIMD F32x8 round(F32x8 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F32x8 floor(F32x8 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F32x8 ceil(F32x8 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F32x8 trunc(F32x8 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
PERI_SIMD M32x8 eq(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
PERI_SIMD M32x8 ne(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
PERI_SIMD M32x8 lt(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
PERI_SIMD M32x8 le(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
PERI_SIMD M32x8 gt(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
PERI_SIMD M32x8 ge(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
PERI_SIMD M32x8 is_nan(F32x8 a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
PERI_SIMD F32x8 select(M32x8 m, F32x8 a, F32x8 b) { return {_mm256_blendv_ps(b.v, a.v, m.v)}; }
// One instruction; the second operand where either is NaN or both are zero.
PERI_SIMD F32x8 max_second(F32x8 a, F32x8 b) { return {_mm256_max_ps(a.v, b.v)}; }
PERI_SIMD F32x8 min_second(F32x8 a, F32x8 b) { return {_mm256_min_ps(a.v, b.v)}; }
// NaN where either is NaN (numpy's and ONNX's maximum and minimum).
PERI_SIMD F32x8 max(F32x8 a, F32x8 b) { return select(is_nan(a), a, max_second(a, b)); }
PERI_SIMD F32x8 min(F32x8 a, F32x8 b) { return select(is_nan(a), a, min_second(a, b)); }
PERI_SIMD I32x8 as_int(F32x8 a) { return {_mm256_castps_si256(a.v)}; }
PERI_SIMD F32x8 as_float(I32x8 a) { return {_mm256_castsi256_ps(a.v)}; }
// table[index mod 8] in each lane; 32-byte aligned.
PERI_SIMD F32x8 look_up(const float (&table)[8], I32x8 index) {
  return {_mm256_permutevar8x32_ps(_mm256_load_ps(table), index.v)};
}
PERI_SIMD I32x8 to_int(F32x8 a) { return {_mm256_cvtps_epi32(a.v)}; }  // nearest even; out of range: INT_MIN
PERI_SIMD I32x8 to_int_trunc(F32x8 a) { return {_mm256_cvttps_epi32(a.v)}; }
PERI_SIMD F32x8 to_float(I32x8 a) { return {_mm256_cvtepi32_ps(a.v)}; }
// x * 2^n, n integral and |n| <= 250, rounded once (x near 1): subnormal results are correct.
PERI_SIMD F32x8 scale(F32x8 x, F32x8 n) {
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return {_mm256_mul_ps(_mm256_mul_ps(x.v, a), b)};
}
// Reduction over lanes in one fixed order: lane i with i+4, then i+2, then i+1.
PERI_SIMD float sum_lanes(F32x8 a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
// No lane may be NaN (test with is_nan first).
PERI_SIMD float max_lanes(F32x8 a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
PERI_SIMD float min_lanes(F32x8 a) { return -max_lanes(-a); }

// Lane masks from and to bytes 0 and 1 (any byte but 0 counts as set).
PERI_SIMD M32x8 load_bool(const uint8_t* p) {
  const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(x, _mm256_setzero_si256()))};
}
PERI_SIMD void store_bool(uint8_t* p, M32x8 m) {
  const __m256i x = _mm256_castps_si256(m.v);
  const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i bytes = _mm_and_si128(_mm_packs_epi16(half, half), _mm_set1_epi8(1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), bytes);
}
// Every second of 2 * kLanes consecutive elements, starting with the first.
PERI_SIMD F32x8 even_lanes(F32x8 a, F32x8 b) {
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, _MM_SHUFFLE(2, 0, 2, 0)));
  return {_mm256_castpd_ps(_mm256_permute4x64_pd(pairs, _MM_SHUFFLE(3, 1, 2, 0)))};
}
// a[0], b[0], a[1], b[1], ...: the first kLanes of these, and the rest.
PERI_SIMD F32x8 low_pairs(F32x8 a, F32x8 b) {
  return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), 0x20)};
}
PERI_SIMD F32x8 high_pairs(F32x8 a, F32x8 b) {
  return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), 0x31)};
}
// One byte per lane, saturated.
PERI_SIMD void store_bytes(uint8_t* p, I32x8 a) {
  const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(half, half));
}
PERI_SIMD void store_bytes(int8_t* p, I32x8 a) {
  const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(half, half));
}

// Four doubles, one half of the floats.
struct F64x4 {
  __m256d v;
  static constexpr int kLanes = 4;
  static PERI_SIMD_MEMBER F64x4 load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static PERI_SIMD_MEMBER F64x4 set1(double x) { return {_mm256_set1_pd(x)}; }
};
PERI_SIMD void store(double* p, F64x4 a) { _mm256_storeu_pd(p, a.v); }
PERI_SIMD F64x4 operator+(F64x4 a, F64x4 b) { return {_mm256_add_pd(a.v, b.v)}; }
PERI_SIMD F64x4 operator-(F64x4 a, F64x4 b) { return {_mm256_sub_pd(a.v, b.v)}; }
PERI_SIMD F64x4 operator*(F64x4 a, F64x4 b) { return {_mm256_mul_pd(a.v, b.v)}; }
PERI_SIMD F64x4 operator/(F64x4 a, F64x4 b) { return {_mm256_div_pd(a.v, b.v)}; }
PERI_SIMD F64x4 fma(F64x4 a, F64x4 b, F64x4 c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
PERI_SIMD F64x4 round(F64x4 a) { return {_mm256_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F64x4 max_second(F64x4 a, F64x4 b) { return {_mm256_max_pd(a.v, b.v)}; }
PERI_SIMD F64x4 min_second(F64x4 a, F64x4 b) { return {_mm256_min_pd(a.v, b.v)}; }
PERI_SIMD F64x4 low_double(F32x8 a) { return {_mm256_cvtps_pd(_mm256_castps256_ps128(a.v))}; }
PERI_SIMD F64x4 high_double(F32x8 a) { return {_mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1))}; }
PERI_SIMD F32x8 from_doubles(F64x4 low, F64x4 high) {
  return {_mm256_set_m128(_mm256_cvtpd_ps(high.v), _mm256_cvtpd_ps(low.v))};
}
// x * 2^n, n integral, |n| <= 1000.
PERI_SIMD F64x4 scale(F64x4 x, F64x4 n) {
  const __m256i e = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n.v));
  return {
      _mm256_mul_pd(x.v, _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(e, _mm256_set1_epi64x(1023)), 52)))};
}

using F32 = F32x8;
using I32 = I32x8;
using M32 = M32x8;
using F64 = F64x4;

}  // namespace peri::simd::avx2
