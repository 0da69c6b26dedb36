// A tiled float32 product on a GPU with operands from any source: matrices, or the pixels of a convolution.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// c(batch, m, n) = sum over k of a(batch, m, k) * b(batch, k, n), in float32 with sums over k in order, or in float64.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_along_m = false, b_along_k = false;  // contiguous along m (along k); else a along k, b along n
  bool whole = false;                         // integers: peri_a and peri_b give int, sums wrap in int32
  bool few = false;  // few configurations, since tensor cores solve most problems of its kind: for 16-bit operands
  // Four elements from a multiple of four on are contiguous at a multiple of 16 bytes, or all out of range.
  bool a_wide = false, b_wide = false;
  bool b_runs = false;  // the depth is whole runs of kProductDepth, of which a column has all elements or none
  // Functions of the text (all take PERI_PARAMETERS at the end):
  //   PERI_INDEX peri_a_base(PERI_INDEX batch)                            argument of peri_a
  //   peri_number peri_a(PERI_INDEX base, PERI_INDEX m, PERI_INDEX k)     only within the sizes
  //   struct peri_column; peri_column peri_column_of(batch, n)            any n; argument of peri_b
  //   peri_number peri_b(const peri_column& column, PERI_INDEX k)               k within the sizes
  //   wide: const float* peri_a_from(base, m, k), const float* peri_b_from(batch, k, n)   the four; within the sizes
  //   runs: struct peri_run { bool there; ... }; peri_run peri_run_of(column, k); float peri_b_of(run, int depth)
  //   float peri_sum(peri_sum_type sum, PERI_INDEX batch, PERI_INDEX m, n)   applies bias and factors, rounds once;
  //   whole: int PERI_INDEX peri_place(PERI_INDEX batch, PERI_INDEX m, n)            index in the result
  // and what chain.hpp writes to end with.
  std::string functions;
  std::vector<PackedWeight> packed = {};  // see LaunchInstance
};
constexpr int kProductDepth = 16;  // of a tile

// Tile sizes and split of the depth as texts of configurations, "tm=64 tn=64 split=1", the best estimate for the sizes
// on such a GPU first; with " doubles=4" sums in float64 by so many warps, with " cluster=1" the parts of the depth
// joined by a cluster of blocks. The same set for all sizes; of float32 those with sums in float64 alone where
// GpuLimits::doubles, since they are as fast there.
struct ProductConfig {
  std::string text;
  double guess_ms = 0;
};
std::vector<ProductConfig> product_configs(const Product& product, const GpuLimits& gpu);
// A plain offer with each of them.
std::vector<Offer> product_offers(const Problem& problem, const Product& product, const GpuLimits& gpu);
// Without support for clusters a separate launch joins the parts. Errors: kInvalid for a configuration that is not one
// of those.
Result<std::unique_ptr<Instance>> product_instance(const Product& product, std::string_view config,
                                                   int64_t most_elements, const GpuLimits& gpu, Signature* signature);
// The launches of a product among others: one of a depth in one part, or joined by a cluster, takes no workspace.
struct ProductLaunches {
  std::vector<KernelLaunch> launches;
  size_t workspace = 0;
};
Result<ProductLaunches> product_launches(const Product& product, std::string_view config, int64_t most_elements,
                                         const GpuLimits& gpu, Signature* signature);

}  // namespace peri::kernels::cuda
