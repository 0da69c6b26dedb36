// The loops of typed/products.hpp, written once; included by products_avx2.cpp and products_avx512.cpp, which set
// PERI_ISA and kVectorBytes.
#include <cstring>

#include "kernels/cpu/typed/products.hpp"

namespace peri::kernels::cpu::typed::PERI_ISA {
namespace {

// Sums in registers: 8 x 2 of 32 with AVX-512, 4 x 2 of 16 with AVX2.
constexpr int64_t kRows = kVectorBytes == 64 ? 8 : 4, kVectors = 2;
static_assert(kVectors * kVectorBytes <= kProductColumnBytes);

template <class T>
struct Lanes {
  static constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
};

// kR rows of kVectors vectors of columns, in registers; rows of b are `ldb` apart, starting at `b`.
template <class T, int64_t kR>
void tile(const ProductArgs& g, int64_t row, int64_t column, const T* b, int64_t ldb) {
  using V = typename Lanes<T>::Vector;
  constexpr int64_t kCount = Lanes<T>::kCount;
  const T* const a = static_cast<const T*>(g.a) + row * g.lda;
  V sums[kR][kVectors] = {};
  for (int64_t k = 0; k < g.k; ++k, b += ldb) {
    V w[kVectors];
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) std::memcpy(&w[v], b + v * kCount, sizeof(V));
#pragma GCC unroll 8
    for (int64_t r = 0; r < kR; ++r)
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += w[v] * a[r * g.lda + k];
  }
  T* const y = static_cast<T*>(g.y) + row * g.ldy + column;
#pragma GCC unroll 8
  for (int64_t r = 0; r < kR; ++r)
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) std::memcpy(y + r * g.ldy + v * kCount, &sums[r][v], sizeof(V));
}

template <class T>
void edge(const ProductArgs& g, int64_t row, int64_t column) {
  T sum = 0;
  for (int64_t k = 0; k < g.k; ++k)
    sum += static_cast<const T*>(g.a)[row * g.lda + k] * static_cast<const T*>(g.b)[k * g.ldb + column];
  static_cast<T*>(g.y)[row * g.ldy + column] = sum;
}

template <class T>
void run(const ProductArgs& g) {
  constexpr int64_t kColumns = kVectors * Lanes<T>::kCount;
  int64_t column = 0;
  for (; column + kColumns <= g.n; column += kColumns) {
    const T* b = static_cast<const T*>(g.b) + column;
    int64_t row = 0, ldb = g.ldb;
    // Rows of b that are far apart map to few sets of the cache: columns that several tiles read are packed first.
    if (g.scratch && g.m >= 2 * kRows) {
      T* const packed = static_cast<T*>(g.scratch);
      for (int64_t k = 0; k < g.k; ++k) std::memcpy(packed + k * kColumns, b + k * ldb, kColumns * sizeof(T));
      b = packed;
      ldb = kColumns;
    }
    for (; row + kRows <= g.m; row += kRows) tile<T, kRows>(g, row, column, b, ldb);
    for (; row < g.m; ++row) tile<T, 1>(g, row, column, b, ldb);
  }
  for (; column < g.n; ++column)
    for (int64_t row = 0; row < g.m; ++row) edge<T>(g, row, column);
}
}  // namespace

const Products kProducts = {run<double>, run<uint64_t>, run<uint32_t>};

}  // namespace peri::kernels::cpu::typed::PERI_ISA
