// The loops for avx2, and the conversion of bytes to its vectors of int32.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"

namespace peri::kernels::cpu::integer::avx2 {
namespace {
using simd::avx2::I32x8;

PERI_SIMD I32x8 widen(const uint8_t* x) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)))};
}
PERI_SIMD I32x8 widen(const int8_t* x) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)))};
}
// The lowest byte of each lane.
PERI_SIMD void narrow(uint8_t* y, I32x8 v) {
  const __m256i low = _mm256_and_si256(v.v, _mm256_set1_epi32(0xff)),
                pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08),
                bytes = _mm256_packus_epi16(pairs, pairs);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(bytes));
}

class Table {
 public:
  explicit PERI_SIMD_MEMBER Table(const uint8_t* bytes) : bytes_(bytes) {}
  PERI_SIMD_MEMBER I32x8 at(I32x8 index) const {
    int32_t y[I32x8::kLanes];
    store(y, index);
    for (int32_t& v : y) v = bytes_[v];
    return I32x8::load(y);
  }

 private:
  const uint8_t* bytes_;
};
}  // namespace
}  // namespace peri::kernels::cpu::integer::avx2

#include "kernels/cpu/integer/loops_body.hpp"
