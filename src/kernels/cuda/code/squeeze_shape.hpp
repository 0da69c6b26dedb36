// Shared by the kernels of squeeze-and-excite blocks: two consecutive pointwise convolutions of one pixel, and the
// image that the result scales.
#pragma once

#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// A convolution of one pixel, that is, a product of its channels with constant weights; refuses others.
Result<ConvShape> read_one_pixel(const Problem& problem);
// An expression for the steps applied to `v`, an element of the first node's result.
Result<std::string> behind_product(const ir::Graph& graph);
// A macro NAME(K): the element `K` of a convolution's bias, "0.0f" without one.
Result<std::string> bias_of(const Problem& problem, const ir::Node& conv, const char* name, Signature* signature);

// For the nodes from `begin` on: the range of the second convolution with its epilogue, its input and result; the image
// that its result scales, if there is one.
struct SqueezeParts {
  size_t second = 0, end = 0;
  const ir::Value *middle = nullptr, *result = nullptr, *image = nullptr;
};
Result<SqueezeParts> parted_squeeze(const ir::Graph& graph, size_t begin);

}  // namespace peri::kernels::cuda
