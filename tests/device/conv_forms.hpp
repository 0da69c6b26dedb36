// Convolutions in every form that is requested from cuDNN, with their values and expected results.
#pragma once

#include <algorithm>

#include "base/rng.hpp"
#include "base/tensor.hpp"
#include "device/cuda/cudnn.hpp"

namespace peri::device::tests {

// Values of a convolution on the host.
struct Operands {
  explicit Operands(const cuda::DnnConv& v)
      : x(seeded(v.dtype, v.n * v.c * v.h * v.w, 1)),
        w(seeded(v.dtype, v.k * v.r * v.s * v.c / v.groups, 2)),
        bias(seeded(v.dtype, v.k, 3)),
        residual(seeded(v.dtype, v.n * v.k * v.oh * v.ow, 4)),
        y(*Tensor::zeros(v.dtype, {v.n * v.k * v.oh * v.ow})) {}
  static Tensor seeded(DType dtype, int64_t n, uint64_t seed) {
    Rng rng(seed);
    Tensor t = *Tensor::zeros(dtype, {n});
    for (int64_t k = 0; k < n; ++k) t.set_f64(k, rng.uniform() - 0.5);
    return t;
  }
  Tensor x, w, bias, residual, y;
};

inline double expected(const cuda::DnnConv& v, const Operands& o, int64_t n, int64_t k, int64_t i, int64_t j) {
  const int64_t depth = v.c / v.groups, first = k / (v.k / v.groups) * depth;
  double sum = 0;
  for (int64_t r = 0; r < v.r; ++r)
    for (int64_t s = 0; s < v.s; ++s) {
      const int64_t h = i * v.stride[0] - v.before[0] + r * v.dilation[0],
                    w = j * v.stride[1] - v.before[1] + s * v.dilation[1];
      if (h < 0 || w < 0 || h >= v.h || w >= v.w) continue;
      for (int64_t d = 0; d < depth; ++d)
        sum += o.x.f64(((n * v.h + h) * v.w + w) * v.c + first + d) * o.w.f64(((k * v.r + r) * v.s + s) * depth + d);
    }
  if (v.residual) sum += o.residual.f64(((n * v.oh + i) * v.ow + j) * v.k + k);
  if (v.bias) sum += o.bias.f64(k);
  return v.relu ? std::max(sum, 0.0) : sum;
}

// One bit each: a window, bias, residual, relu; groups with strides, dilations and padding at one end.
inline cuda::DnnConv conv_form(DType dtype, int form) {
  cuda::DnnConv v;
  v.dtype = dtype;
  v.n = 2;
  v.c = 4;
  v.h = 7;
  v.w = 6;
  v.k = 8;
  v.r = form & 1 ? 3 : 1;
  v.s = form & 1 ? 2 : 1;
  v.bias = form & 2;
  v.residual = form & 4;
  v.relu = form & 8;
  if (form & 16) v.groups = 2, v.stride = {2, 1}, v.before = {1, 0}, v.after = {0, 1}, v.dilation = {1, 2};
  v.oh = (v.h + v.before[0] + v.after[0] - v.dilation[0] * (v.r - 1) - 1) / v.stride[0] + 1;
  v.ow = (v.w + v.before[1] + v.after[1] - v.dilation[1] * (v.s - 1) - 1) / v.stride[1] + 1;
  return v;
}

}  // namespace peri::device::tests
