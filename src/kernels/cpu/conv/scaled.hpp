// Weights of a pointwise convolution with each input channel scaled: (x * s) * w = x * (s * w). Scaling the weights of
// an image costs ic * oc products; scaling the image reads and writes all of it.
#pragma once

#include "kernels/cpu/conv/conv.hpp"

namespace peri::kernels::cpu {

// packed: weights of a one-tap shape with one group, from pack_conv_weights; scale: [ic]; out: as packed.
void scale_packed_weights(const float* packed, const ConvShape& shape, Isa isa, const float* scale, float* out);

// The epilogue for result rows [row, ...).
Epilogue from_row(Epilogue e, int64_t row);

}  // namespace peri::kernels::cpu
