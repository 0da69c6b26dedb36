// A tiled float32 product on a GPU with operands from any source: matrices, or the pixels of a convolution.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// c(batch, m, n) = sum over k of a(batch, m, k) * b(batch, k, n), in float32, sums over k in order.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_along_m = false, b_along_k = false;  // contiguous along m (along k); else a along k, b along n
  bool few = false;  // few configurations, since tensor cores solve most problems of its kind: for 16-bit operands
  // Functions of the text (all take PERI_PARAMETERS at the end):
  //   PERI_INDEX peri_a_base(PERI_INDEX batch)                            argument of peri_a
  //   float peri_a(PERI_INDEX base, PERI_INDEX m, PERI_INDEX k)           only within the sizes
  //   struct peri_column; peri_column peri_column_of(batch, n)            any n; argument of peri_b
  //   float peri_b(const peri_column& column, PERI_INDEX k)               k within the sizes
  //   float peri_sum(float sum, PERI_INDEX batch, PERI_INDEX m, n)        applies bias and factors
  //   PERI_INDEX peri_place(PERI_INDEX batch, PERI_INDEX m, n)            index in the result
  // and peri_finish() of chain.hpp.
  std::string functions;
};

// Tile sizes and split of the depth as texts of configurations, "tm=64 tn=64 split=1", the best estimate for the sizes
// on such a GPU first. The same set for all sizes.
struct ProductConfig {
  std::string text;
  double guess_ms = 0;
};
std::vector<ProductConfig> product_configs(const Product& product, const GpuLimits& gpu);
// Errors: kInvalid for a configuration that is not one of those.
Result<std::unique_ptr<Instance>> product_instance(const Product& product, std::string_view config,
                                                   int64_t most_elements, Signature* signature);

}  // namespace peri::kernels::cuda
