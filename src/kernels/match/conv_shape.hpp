// The sizes of a two-dimensional convolution for any kernel: plain data.
#pragma once

#include <cstdint>

namespace peri::kernels {

// Layout of the input. The output is always NHWC.
enum class XForm : uint8_t {
  kNhwc,
  kNchw,  // few channels, one group, dw = 1 (a network's first convolution): read directly, without a transpose
};

struct ConvShape {
  int64_t n = 1, ih = 0, iw = 0, ic = 0;  // input
  int64_t oc = 0, kh = 1, kw = 1;
  int64_t sh = 1, sw = 1, dh = 1, dw = 1;            // strides, dilations
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // zero padding
  int64_t groups = 1;
  XForm x_form = XForm::kNhwc;

  int64_t oh() const { return (ih + top + bottom - dh * (kh - 1) - 1) / sh + 1; }
  int64_t ow() const { return (iw + left + right - dw * (kw - 1) - 1) / sw + 1; }
};

}  // namespace peri::kernels
