// The loops for avx512, and the conversion of bytes to its vectors of int32.
#define PERI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"

namespace peri::kernels::cpu::integer::avx512 {
namespace {
using simd::avx512::I32x16;

PERI_SIMD I32x16 widen(const uint8_t* x) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)))};
}
PERI_SIMD I32x16 widen(const int8_t* x) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)))};
}
// The lowest byte of each lane.
PERI_SIMD void narrow(uint8_t* y, I32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_cvtepi32_epi8(v.v));
}

// 256 bytes, four in a lane of four vectors.
class Table {
 public:
  explicit PERI_SIMD_MEMBER Table(const uint8_t* bytes) {
    for (int k = 0; k < 4; ++k) parts_[k] = bytes ? _mm512_loadu_si512(bytes + 64 * k) : _mm512_setzero_si512();
  }
  PERI_SIMD_MEMBER I32x16 at(I32x16 index) const {
    const __m512i lane = _mm512_srli_epi32(index.v, 2), low = _mm512_permutex2var_epi32(parts_[0], lane, parts_[1]),
                  high = _mm512_permutex2var_epi32(parts_[2], lane, parts_[3]);
    const __m512i four = _mm512_mask_blend_epi32(_mm512_test_epi32_mask(index.v, _mm512_set1_epi32(128)), low, high);
    const __m512i within = _mm512_slli_epi32(_mm512_and_si512(index.v, _mm512_set1_epi32(3)), 3);
    return {_mm512_and_si512(_mm512_srlv_epi32(four, within), _mm512_set1_epi32(0xff))};
  }

 private:
  __m512i parts_[4];
};
}  // namespace
}  // namespace peri::kernels::cpu::integer::avx512

#include "kernels/cpu/integer/loops_body.hpp"
