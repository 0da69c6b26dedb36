// Matches a matrix product with its epilogue as a shape of the kernels in cpu/gemm, or gives the reason for a refusal.
#pragma once

#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {

struct Product {
  cpu::GemmShape shape;
  MatchedEpilogue epilogue;
  int a = -1, b = -1;  // graph inputs
  bool b_transposed = false;
  // Distances between products in elements: of the outer and the inner loop over them (GemmShape).
  int64_t a_batch = 0, b_batch = 0, a_inner = 0, b_inner = 0;

  // Pointers of a run; `packed`: the right side's packed form, null where it is an argument.
  cpu::GemmArgs args(const Args& args, const float* packed, std::span<const Tensor> constants, size_t output = 0) const;
};

// A float32 matmul or gemm and its epilogue.
Result<Product> read_product(const Problem& problem);

}  // namespace peri::kernels
