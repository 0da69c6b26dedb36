// Depthwise convolution: vectors run along channels; a tile holds several output columns of one row in registers.
#pragma once

#include <cstdint>

#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/gemm/epilogue.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu {

constexpr int kMaxDepthwiseColumns = 8;

// y[o][c] = stage(sum over the kernel's rows and columns of x * w), each sum one chain of fused multiply-adds in
// ascending (ky, kx) order, for `repeat` adjacent tiles.
struct DepthwiseTile {
  // Sliding forms: the row's first pixel in the kernel's first row, the pixel of the first tile's first tap (negative
  // in the padding), floats from row to row and from pixel to pixel. Of an edge (repeat = 1), so many of the first and
  // last pixels that its taps span are padding: less than kw of each.
  const float* x = nullptr;
  int64_t first = 0, x_row = 0, x_pixel = 0;
  int64_t before = 0, behind = 0;
  // Plain form (repeat = 1): input pixels [kh][kw][columns]; those in the padding point to zeros.
  const float* const* pixels = nullptr;
  int64_t repeat = 1;
  int64_t kh = 0, kw = 0;    // rows of the kernel inside the image, all columns
  const float* w = nullptr;  // [kh * kw], w_step floats apart
  int64_t w_step = 0;
  float* y = nullptr;  // the first tile's first pixel
  int64_t y_pixel = 0;
  int64_t channels = 0;
  RegisterStage stage;  // bias at channel 0, add at the first pixel
};
using DepthwiseFn = void (*)(const DepthwiseTile&);

// Indexed [columns - 1]. Sliding kernels read a pixel once for all outputs that use it: [kw is 3, 5][sw is 1, 2], dw =
// 1.
struct DepthwiseTable {
  DepthwiseFn plain[kMaxDepthwiseColumns];  // any kernel
  DepthwiseFn sliding[2][2][kMaxDepthwiseColumns];
  DepthwiseFn edge[2][2][kMaxDepthwiseColumns];
};
extern const DepthwiseTable depthwise_table_avx2;
extern const DepthwiseTable depthwise_table_avx512;
const DepthwiseTable& depthwise_table(Isa isa);

// One task of a plan of kind kDepthwise.
void run_depthwise(const ConvPlan& plan, const ConvArgs& args, int64_t task, float* scratch);

}  // namespace peri::kernels::cpu
