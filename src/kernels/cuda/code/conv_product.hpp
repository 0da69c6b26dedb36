// A convolution as an implicit product (product.hpp): rows are output channels, columns output pixels.
#pragma once

#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// What both ways to compute it read: sizes, PERI_KERNEL_H and the like; struct peri_column and peri_window(image,
// group, pixel), the first input pixel of an output pixel; peri_tap(column, channel, kd, kh, kw), 0 beside the image;
// and peri_weight(at). `x` and `w` are the expressions of element [at], of type `number`.
std::string conv_text(const ConvShape& conv, const std::string& number, const std::string& x, const std::string& w,
                      Signature* signature);
// Of Product::functions all that read, and peri_place; behind conv_text().
std::string_view conv_product_text();
// Kernel peri_conv_direct instead of a product: a thread for each of `results`. Before it peri_sum_type, peri_fma and
// peri_finish; behind this text's own PERI_M and PERI_K peri_sum, as a Product has it.
struct DirectConv {
  std::string sizes, kernel;
};
DirectConv conv_direct_text(int64_t results, Signature* signature);
// An estimate (see launch.hpp).
double direct_guess_ms(const ConvShape& conv, const GpuLimits& gpu);

}  // namespace peri::kernels::cuda
