// What kernels for squeeze-and-excite blocks share: two pointwise convolutions of one pixel, one behind the other, and
// the image that the result is a factor of.
#pragma once

#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// A convolution that is a product of the channels of one pixel with weights of the model; refuses others.
Result<ConvShape> read_one_pixel(const Problem& problem);
// What is done with `v`, an element of the first node's result, as an expression.
Result<std::string> behind_product(const ir::Graph& graph);
// A macro NAME(K): the element `K` of a convolution's bias, "0.0f" without one.
Result<std::string> bias_of(const Problem& problem, const ir::Node& conv, const char* name, Signature* signature);

// Of the nodes from `begin` on: where the second convolution begins and ends with what follows it, what it reads and
// gives; the image that its result is a factor of, if there is one.
struct SqueezeParts {
  size_t second = 0, end = 0;
  const ir::Value *middle = nullptr, *result = nullptr, *image = nullptr;
};
Result<SqueezeParts> parted_squeeze(const ir::Graph& graph, size_t begin);

}  // namespace peri::kernels::cuda
