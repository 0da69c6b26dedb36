// Rows of a convolution whose groups have few channels, stored as planes, per instruction set. Plain types only:
// included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::conv {

// One row of up to kThinOuts planes of the result: y[o][i] = bias[o] + sum over taps t of w[o][t] * x[at[t] + i]. Reads
// up to kThinSlack floats beyond the last one used.
struct ThinRow {
  const float* x = nullptr;
  const int64_t* at = nullptr;
  const float* w = nullptr;  // [outs][taps]
  int64_t taps = 0;
  const float* bias = nullptr;  // null: none
  float* y = nullptr;
  int64_t y_step = 0;  // from plane to plane
  int64_t n = 0;
  int outs = 1;
};
constexpr int kThinOuts = 4;
constexpr int64_t kThinSlack = 64;

// Rows of which each has the elements that are `rows` apart in the result: y[i * rows + r] = x[r * x_step + i].
struct Weave {
  const float* x = nullptr;
  int64_t x_step = 0, rows = 1;
  float* y = nullptr;
  int64_t n = 0;  // of y
};

namespace avx2 {
void thin_row(const ThinRow& row);
void weave(const Weave& rows);
}  // namespace avx2
namespace avx512 {
void thin_row(const ThinRow& row);
void weave(const Weave& rows);
}  // namespace avx512

}  // namespace peri::kernels::cpu::conv
