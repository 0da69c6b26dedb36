// The loops for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
//
namespace peri::kernels::cpu::quantize::avx2 {
namespace {
using simd::avx2::I32x8;
// Two bytes each, saturated.
PERI_SIMD void store_bytes(uint16_t* p, I32x8 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1)));
}
PERI_SIMD void store_bytes(int16_t* p, I32x8 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1)));
}
}  // namespace
}  // namespace peri::kernels::cpu::quantize::avx2
#include "kernels/cpu/quantize/loops_body.hpp"
