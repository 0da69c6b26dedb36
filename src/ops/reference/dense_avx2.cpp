// The float64 product with AVX2 and FMA.
#include "ops/reference/dense_tile.hpp"

namespace peri::ops {

void dense_block_avx2(int64_t m, int64_t n, int64_t depth, const double* a, const double* b, double* c,
                      int64_t c_step) {
  block<4, 4, 3>(m, n, depth, a, b, c, c_step);
}

}  // namespace peri::ops
