// The sizes of a convolution, in one form for one to three dimensions.
#pragma once

#include <array>

#include "kernels/entry.hpp"

namespace peri::kernels::cuda {

// Always three dimensions; missing ones have size 1 and come first.
struct ConvShape {
  int64_t images = 0, groups = 1, channels = 0, outputs = 0;  // channels and outputs are per group
  std::array<int64_t, 3> in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1}, stride = {1, 1, 1}, dilation = {1, 1, 1},
                         pad = {0, 0, 0};
  int64_t pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};
// For a problem whose anchor is a convolution of f32, f16 or bf16.
Result<ConvShape> read_conv(const Problem& problem);
// For a convolution of any kind: of `x` by `w`.
Result<ConvShape> read_conv_of(const ir::Node& conv, const ir::Value& x, const ir::Value& w);

}  // namespace peri::kernels::cuda
