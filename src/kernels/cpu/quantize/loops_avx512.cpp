// The loops for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"
//
namespace peri::kernels::cpu::quantize::avx512 {
namespace {
using simd::avx512::I32x16;
// Two bytes each, saturated.
PERI_SIMD void store_bytes(uint16_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtusepi32_epi16(_mm512_max_epi32(a.v, _mm512_setzero_si512())));
}
PERI_SIMD void store_bytes(int16_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(a.v));
}
}  // namespace
}  // namespace peri::kernels::cpu::quantize::avx512
#include "kernels/cpu/quantize/loops_body.hpp"
