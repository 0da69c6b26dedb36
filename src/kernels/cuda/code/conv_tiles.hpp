// The operands of a convolution as a tiled product (tiles.hpp): rows are output pixels, columns output channels, the
// depth is taps by channels, channels innermost. Images have their channels last, or are row-major.
#pragma once

#include <functional>

#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/tiles.hpp"

namespace peri::kernels::cuda {

// Sizes of the product, and what its estimate needs to know of the problem; neither operands nor functions.
TiledProduct conv_product(const ConvShape& shape, DType type, const Problem& problem);
// Sizes of images as parameters, what attributes and weights fix as numbers of the text. `last`: channels of the image.
std::string conv_defines(const ConvShape& shape, bool last, Signature* signature);
// Lines and steps of operand a, then `element`, which defines peri_a_from (wide) or peri_a.
std::string conv_image_text(const std::string& element);
// Elements of the image at address `x`.
std::string conv_element_text(const std::string& x, bool wide);
// Operand b: weights at address `w`, as conv_packed_weights() orders them.
std::string conv_weights_text(const std::string& w);
// peri_place: of a result with its channels last, or row-major.
std::string conv_place_text(bool last);
// Rows of output channels; their taps and channels in the order of the depth, padded with zeros to a multiple of 8. Row
// `o` is that of output channel row(o), or o.
Result<Tensor> conv_packed_weights(const Tensor& w, const ConvShape& shape,
                                   const std::function<int64_t(int64_t o)>& row = {});

}  // namespace peri::kernels::cuda
