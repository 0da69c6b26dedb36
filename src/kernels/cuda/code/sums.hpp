// The type in which kernels that are written once for all types add.
#pragma once

#include <string>

#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels::cuda {

// Text of `peri_sum_type`, in which elements of `dtype` are added on such a GPU, and of peri_fma(a, b, sum),
// peri_dot_8(a, b, sum) of eight products more,
// peri_root(v) and peri_log(v) in it; of peri_exp_less(x, high), e to x - high of two
// float32 with x at most high. float64 for elements of float32 where it costs little (GpuLimits::doubles): the product
// of two is exact in it, and a sum is rounded once, at its end; float32 else.
std::string sums_text(DType dtype, const GpuLimits& gpu);
// The dtype of a product's elements: kF32 if both operands have it, else that of one of 16 bits.
DType summed_type(const ir::Node& product);

}  // namespace peri::kernels::cuda
