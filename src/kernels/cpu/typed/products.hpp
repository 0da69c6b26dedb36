// Matrix products of float64 and integers, for each instruction set: y [m, n] = a [m, k] b [k, n], integers modulo
// their width. Plain types only: sources by instruction set see this.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::typed {

struct ProductArgs {
  const void *a, *b;
  void* y;
  int64_t m, n, k, lda, ldb, ldy;  // leading dimensions in elements
  void* scratch = nullptr;         // k * kProductColumnBytes bytes; null: b is read where it lies
};
constexpr int64_t kProductColumnBytes = 128;  // of a row of b, the columns of a tile
// Of f64, i64 and i32; of the last two the signless forms.
struct Products {
  void (*f64)(const ProductArgs& args);
  void (*i64)(const ProductArgs& args);
  void (*i32)(const ProductArgs& args);
};
namespace avx2 {
extern const Products kProducts;
}
namespace avx512 {
extern const Products kProducts;
}

}  // namespace peri::kernels::cpu::typed
