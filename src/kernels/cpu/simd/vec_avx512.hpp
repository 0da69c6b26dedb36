// AVX-512 vectors: 16 floats, 16 int32, their masks, and two halves of 8 doubles. Names and semantics equal
// vec_avx2.hpp, so that a kernel body is written once. Include only in files compiled for AVX-512 F, BW, DQ and VL.
// Everything is forced inline: a symbol of one instruction set never replaces another's.
#pragma once

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12: false alarms inside its own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstdint>

#ifndef PERI_SIMD
#define PERI_SIMD static inline __attribute__((always_inline))
#define PERI_SIMD_MEMBER inline __attribute__((always_inline))
#endif

namespace peri::simd::avx512 {

// Lane masks: one bit per lane.
struct M32x16 {
  __mmask16 v;
};
PERI_SIMD M32x16 operator&(M32x16 a, M32x16 b) { return {_kand_mask16(a.v, b.v)}; }
PERI_SIMD M32x16 operator|(M32x16 a, M32x16 b) { return {_kor_mask16(a.v, b.v)}; }
PERI_SIMD M32x16 operator^(M32x16 a, M32x16 b) { return {_kxor_mask16(a.v, b.v)}; }
PERI_SIMD M32x16 operator~(M32x16 a) { return {_knot_mask16(a.v)}; }
PERI_SIMD bool any(M32x16 a) { return a.v != 0; }
PERI_SIMD bool all(M32x16 a) { return a.v == 0xffff; }
PERI_SIMD uint32_t bits_of(M32x16 a) { return a.v; }

// The first n of 16 lanes, n >= 0 (n >= 16: all).
PERI_SIMD __mmask16 first_lanes(int64_t n) {
  return n >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << n) - 1u);
}
PERI_SIMD M32x16 mask_of_first(int64_t n) { return {first_lanes(n)}; }

struct I32x16 {
  __m512i v;
  static constexpr int kLanes = 16;
  static PERI_SIMD_MEMBER I32x16 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  static PERI_SIMD_MEMBER I32x16 load_n(const int32_t* p, int64_t n) {
    return {_mm512_maskz_loadu_epi32(first_lanes(n), p)};
  }
  static PERI_SIMD_MEMBER I32x16 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
};
PERI_SIMD void store(int32_t* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
PERI_SIMD void store_n(int32_t* p, I32x16 a, int64_t n) { _mm512_mask_storeu_epi32(p, first_lanes(n), a.v); }
PERI_SIMD I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
PERI_SIMD I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
PERI_SIMD I32x16 operator*(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
PERI_SIMD I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
PERI_SIMD I32x16 operator|(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
PERI_SIMD I32x16 operator^(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int N>
PERI_SIMD I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
PERI_SIMD I32x16 shift_right(I32x16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}  // arithmetic
PERI_SIMD I32x16 min(I32x16 a, I32x16 b) { return {_mm512_min_epi32(a.v, b.v)}; }
PERI_SIMD I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
PERI_SIMD M32x16 eq(I32x16 a, I32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
PERI_SIMD M32x16 gt(I32x16 a, I32x16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
PERI_SIMD I32x16 select(M32x16 m, I32x16 a, I32x16 b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }
// The largest lane.
PERI_SIMD int32_t max_lanes(I32x16 a) { return _mm512_reduce_max_epi32(a.v); }

struct F32x16 {
  __m512 v;
  static constexpr int kLanes = 16;
  using Int = I32x16;
  using Mask = M32x16;
  static PERI_SIMD_MEMBER F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  // The first n lanes from memory, the rest zero; touches no byte beyond p + n.
  static PERI_SIMD_MEMBER F32x16 load_n(const float* p, int64_t n) {
    return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
  }
  static PERI_SIMD_MEMBER F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
  static PERI_SIMD_MEMBER F32x16 zero() { return {_mm512_setzero_ps()}; }
  // 16 values of p[0], p[stride], ...
  static PERI_SIMD_MEMBER F32x16 gather(const float* p, int64_t s) {
    const float* q = p + 8 * s;
    return {_mm512_setr_ps(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s],  //
                           q[0], q[s], q[2 * s], q[3 * s], q[4 * s], q[5 * s], q[6 * s], q[7 * s])};
  }
  static PERI_SIMD_MEMBER F32x16 load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static PERI_SIMD_MEMBER F32x16 load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
};
PERI_SIMD void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
PERI_SIMD void store_n(float* p, F32x16 a, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
// Rounds to nearest even; NaN stays NaN.
PERI_SIMD void store_f16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PERI_SIMD void store_bf16(uint16_t* p, F32x16 a) {
  const __m512i x = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(x, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i r = _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, up, quiet), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(r));
}
PERI_SIMD F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
PERI_SIMD F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
PERI_SIMD F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
PERI_SIMD F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
PERI_SIMD F32x16 operator-(F32x16 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
PERI_SIMD F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    //  a*b + c
PERI_SIMD F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // -a*b + c
PERI_SIMD F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
PERI_SIMD F32x16 abs(F32x16 a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
PERI_SIMD F32x16 sign_bit(F32x16 a) { return {_mm512_and_ps(a.v, _mm512_set1_ps(-0.0f))}; }
PERI_SIMD F32x16 bit_or(F32x16 a, F32x16 b) { return {_mm512_or_ps(a.v, b.v)}; }
PERI_SIMD F32x16 bit_xor(F32x16 a, F32x16 b) { return {_mm512_xor_ps(a.v, b.v)}; }
PERI_SIMD F32x16 round(F32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F32x16 floor(F32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F32x16 ceil(F32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F32x16 trunc(F32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
PERI_SIMD M32x16 eq(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
PERI_SIMD M32x16 ne(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
PERI_SIMD M32x16 lt(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
PERI_SIMD M32x16 le(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
PERI_SIMD M32x16 gt(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
PERI_SIMD M32x16 ge(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
PERI_SIMD M32x16 is_nan(F32x16 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
PERI_SIMD F32x16 select(M32x16 m, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
// One instruction; the second operand where either is NaN or both are zero.
PERI_SIMD F32x16 max_second(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
PERI_SIMD F32x16 min_second(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
// NaN where either is NaN (numpy's and ONNX's maximum and minimum).
PERI_SIMD F32x16 max(F32x16 a, F32x16 b) { return select(is_nan(a), a, max_second(a, b)); }
PERI_SIMD F32x16 min(F32x16 a, F32x16 b) { return select(is_nan(a), a, min_second(a, b)); }
PERI_SIMD I32x16 as_int(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
PERI_SIMD F32x16 as_float(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
// table[index mod 16] in each lane; 64-byte aligned.
PERI_SIMD F32x16 look_up(const float (&table)[16], I32x16 index) {
  return {_mm512_permutexvar_ps(index.v, _mm512_load_ps(table))};
}
PERI_SIMD I32x16 to_int(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }  // nearest even; out of range: INT_MIN
PERI_SIMD I32x16 to_int_trunc(F32x16 a) { return {_mm512_cvttps_epi32(a.v)}; }
PERI_SIMD F32x16 to_float(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
// x * 2^n, n integral and |n| <= 250, rounded once: subnormal results are correct.
PERI_SIMD F32x16 scale(F32x16 x, F32x16 n) { return {_mm512_scalef_ps(x.v, n.v)}; }
// Reduction over lanes in one fixed order: lane i with i+8, then i+4, i+2, i+1.
PERI_SIMD float sum_lanes(F32x16 a) {
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
// No lane may be NaN (test with is_nan first).
PERI_SIMD float max_lanes(F32x16 a) {
  const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
PERI_SIMD float min_lanes(F32x16 a) { return -max_lanes(-a); }

// Lane masks from and to bytes 0 and 1 (any byte but 0 counts as set).
PERI_SIMD M32x16 load_bool(const uint8_t* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm_test_epi8_mask(x, x)};
}
PERI_SIMD void store_bool(uint8_t* p, M32x16 m) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_maskz_set1_epi8(m.v, 1));
}
// Every second of 2 * kLanes consecutive elements, starting with the first.
PERI_SIMD F32x16 even_lanes(F32x16 a, F32x16 b) {
  const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return {_mm512_permutex2var_ps(a.v, from, b.v)};
}
// a[0], b[0], a[1], b[1], ...: the first kLanes of these, and the rest.
PERI_SIMD F32x16 low_pairs(F32x16 a, F32x16 b) {
  const __m512i from = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(a.v, from, b.v)};
}
PERI_SIMD F32x16 high_pairs(F32x16 a, F32x16 b) {
  const __m512i from = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return {_mm512_permutex2var_ps(a.v, from, b.v)};
}
// One byte per lane, saturated.
PERI_SIMD void store_bytes(uint8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm512_cvtusepi32_epi8(_mm512_max_epi32(a.v, _mm512_setzero_si512())));
}
PERI_SIMD void store_bytes(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
}

// Eight doubles, one half of the floats.
struct F64x8 {
  __m512d v;
  static constexpr int kLanes = 8;
  static PERI_SIMD_MEMBER F64x8 load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static PERI_SIMD_MEMBER F64x8 set1(double x) { return {_mm512_set1_pd(x)}; }
};
PERI_SIMD void store(double* p, F64x8 a) { _mm512_storeu_pd(p, a.v); }
PERI_SIMD F64x8 operator+(F64x8 a, F64x8 b) { return {_mm512_add_pd(a.v, b.v)}; }
PERI_SIMD F64x8 operator-(F64x8 a, F64x8 b) { return {_mm512_sub_pd(a.v, b.v)}; }
PERI_SIMD F64x8 operator*(F64x8 a, F64x8 b) { return {_mm512_mul_pd(a.v, b.v)}; }
PERI_SIMD F64x8 operator/(F64x8 a, F64x8 b) { return {_mm512_div_pd(a.v, b.v)}; }
PERI_SIMD F64x8 fma(F64x8 a, F64x8 b, F64x8 c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
PERI_SIMD F64x8 round(F64x8 a) { return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
PERI_SIMD F64x8 max_second(F64x8 a, F64x8 b) { return {_mm512_max_pd(a.v, b.v)}; }
PERI_SIMD F64x8 min_second(F64x8 a, F64x8 b) { return {_mm512_min_pd(a.v, b.v)}; }
PERI_SIMD F64x8 low_double(F32x16 a) { return {_mm512_cvtps_pd(_mm512_castps512_ps256(a.v))}; }
PERI_SIMD F64x8 high_double(F32x16 a) { return {_mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1))}; }
PERI_SIMD F32x16 from_doubles(F64x8 low, F64x8 high) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.v)), _mm512_cvtpd_ps(high.v), 1)};
}
// x * 2^n, n integral, |n| <= 1000.
PERI_SIMD F64x8 scale(F64x8 x, F64x8 n) { return {_mm512_scalef_pd(x.v, n.v)}; }

using F32 = F32x16;
using I32 = I32x16;
using M32 = M32x16;
using F64 = F64x8;

}  // namespace peri::simd::avx512
