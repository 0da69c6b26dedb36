// Packing in portable code: 4 x 4 blocks by shuffles where b is transposed, plain copies where it is not.
#include "kernels/cpu/gemm/pack.hpp"

#include <xmmintrin.h>

#include <cstring>

namespace peri::kernels::cpu {
namespace {

void copy_rows(const float* b, int64_t ldb, int64_t k, int64_t columns, int64_t width, float* out) {
  const size_t bytes = static_cast<size_t>(columns) * sizeof(float);
  for (int64_t i = 0; i < k; ++i, b += ldb, out += width) {
    std::memcpy(out, b, bytes);
    for (int64_t j = columns; j < width; ++j) out[j] = 0;
  }
}

void transpose_rows(const float* b, int64_t ldb, int64_t k, int64_t columns, int64_t width, float* out) {
  const int64_t k4 = k & ~int64_t{3};
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    const float* p = b + j * ldb;
    for (int64_t i = 0; i < k4; i += 4) {
      __m128 r0 = _mm_loadu_ps(p + i), r1 = _mm_loadu_ps(p + ldb + i);
      __m128 r2 = _mm_loadu_ps(p + 2 * ldb + i), r3 = _mm_loadu_ps(p + 3 * ldb + i);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      float* q = out + i * width + j;
      _mm_storeu_ps(q, r0);
      _mm_storeu_ps(q + width, r1);
      _mm_storeu_ps(q + 2 * width, r2);
      _mm_storeu_ps(q + 3 * width, r3);
    }
    for (int64_t i = k4; i < k; ++i) {
      for (int64_t l = 0; l < 4; ++l) out[i * width + j + l] = p[l * ldb + i];
    }
  }
  for (; j < width; ++j) {
    for (int64_t i = 0; i < k; ++i) out[i * width + j] = j < columns ? b[j * ldb + i] : 0;
  }
}

}  // namespace

void pack_panel(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t columns, int64_t width, float* out) {
  if (!transposed) return copy_rows(b, ldb, k, columns, width, out);
  // A block of 64 deep keeps the strided side of the transpose in L1.
  constexpr int64_t kDeep = 64;
  for (int64_t i = 0; i < k; i += kDeep) {
    transpose_rows(b + i, ldb, k - i < kDeep ? k - i : kDeep, columns, width, out + i * width);
  }
}

}  // namespace peri::kernels::cpu
