// The sizes of a two-dimensional transposed convolution for any kernel, and how they are read from its node.
#pragma once

#include "kernels/entry.hpp"

namespace peri::kernels {

struct TransposedShape {
  int64_t n = 1, ih = 0, iw = 0, ic = 0;  // input
  int64_t oc = 0, kh = 1, kw = 1;
  int64_t sh = 1, sw = 1, dh = 1, dw = 1;            // strides, dilations
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // cropped from the full result
  int64_t extra_h = 0, extra_w = 0;                  // output padding
  int64_t groups = 1;

  int64_t oh() const { return (ih - 1) * sh + dh * (kh - 1) + 1 + extra_h - top - bottom; }
  int64_t ow() const { return (iw - 1) * sw + dw * (kw - 1) + 1 + extra_w - left - right; }
};

// The anchor's, if it is a float32 transposed convolution of an image that is no weight, with constant weights and a
// constant bias. Explicit and automatic padding.
Result<TransposedShape> match_transposed(const Problem& problem);

}  // namespace peri::kernels
