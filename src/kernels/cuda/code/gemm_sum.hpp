// What becomes of the sum of a matrix product: the factors and the addend of gemm.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Text of float peri_sum(peri_sum_type sum, PERI_INDEX batch, PERI_INDEX m, PERI_INDEX n): alpha * sum + beta * c for
// gemm, whose addend has the result's size or one row, column or element; the sum for matmul. PERI_N: columns.
Result<std::string> gemm_sum_text(const Problem& problem, const ir::Node& product, Signature* signature);

}  // namespace peri::kernels::cuda
