// The loops of typed/products.hpp, written once; included by products_avx2.cpp and products_avx512.cpp, which set
// PERI_ISA and kVectorBytes.
#include <cstring>

#include "kernels/cpu/typed/products.hpp"

namespace peri::kernels::cpu::typed::PERI_ISA {
namespace {

constexpr int64_t kRows = 4, kVectors = 2;

template <class T>
struct Lanes {
  static constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
};

// kR rows of kVectors vectors of columns, in registers.
template <class T, int64_t kR>
void tile(const ProductArgs& g, int64_t row, int64_t column) {
  using V = typename Lanes<T>::Vector;
  constexpr int64_t kCount = Lanes<T>::kCount;
  const T* const a = static_cast<const T*>(g.a) + row * g.lda;
  const T* b = static_cast<const T*>(g.b) + column;
  V sums[kR][kVectors] = {};
  for (int64_t k = 0; k < g.k; ++k, b += g.ldb) {
    V w[kVectors];
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) std::memcpy(&w[v], b + v * kCount, sizeof(V));
#pragma GCC unroll 4
    for (int64_t r = 0; r < kR; ++r)
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += w[v] * a[r * g.lda + k];
  }
  T* const y = static_cast<T*>(g.y) + row * g.ldy + column;
#pragma GCC unroll 4
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
    int64_t row = 0;
    for (; row + kRows <= g.m; row += kRows) tile<T, kRows>(g, row, column);
    for (; row < g.m; ++row) tile<T, 1>(g, row, column);
  }
  for (; column < g.n; ++column)
    for (int64_t row = 0; row < g.m; ++row) edge<T>(g, row, column);
}
}  // namespace

const Products kProducts = {run<double>, run<uint64_t>, run<uint32_t>};

}  // namespace peri::kernels::cpu::typed::PERI_ISA
