// Matrix products of float64 and integers, per instruction set: y [m, n] = a [m, k] b [k, n], integers modulo 2^width.
// Plain types only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::typed {

struct ProductArgs {
  const void *a, *b;
  void* y;
  int64_t m, n, k, lda, ldb, ldy;  // leading dimensions in elements
  void* scratch = nullptr;         // k * kProductColumnBytes bytes; null: b is read in place
};
constexpr int64_t kProductColumnBytes = 128;  // of a row of b: the columns of a tile
// For f64, i64 and i32; the latter two in unsigned arithmetic.
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
