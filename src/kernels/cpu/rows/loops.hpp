// Loops over rows, one set per instruction set. Plain types only: included by sources compiled per ISA. Sums are kept
// in vector lanes over fixed chunks and joined in double, so that results depend on the length of the row only.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::rows {

// One row of a normalisation. Null pointers: absent. `sum_out` receives x + residual (+ residual_bias).
struct NormRow {
  const float* x;
  const float* residual;
  const float* residual_bias;
  const float* scale;
  const float* bias;
  float* sum_out;
  float* y;
  int64_t n;
  float epsilon;
};

struct Loops {
  // y = softmax(x * scale + mask) over n contiguous elements (log: its logarithm). mask_step 1, or 0 for one value; a
  // null mask is none. y may be x.
  void (*softmax)(const float* x, const float* mask, int64_t mask_step, float scale, bool log, float* y, int64_t n);
  // The same over `axis` elements `inner` apart, for `columns` adjacent lines at once.
  void (*softmax_columns)(const float* x, float scale, bool log, float* y, int64_t axis, int64_t inner,
                          int64_t columns);
  // y = (v - mean) / sqrt(variance + epsilon) * scale + bias, v = x + residual + residual_bias. Writes mean and
  // 1 / sqrt(...) to stats[0], stats[1].
  void (*layer_norm)(const NormRow& row, float* stats);
  // y = v / sqrt(mean(v^2) + epsilon) * scale + bias
  void (*rms_norm)(const NormRow& row, float* stats);
  // Mean and 1 / sqrt(variance + epsilon) of n contiguous elements.
  void (*moments)(const float* x, int64_t n, float epsilon, float* stats);
  void (*affine)(const float* x, float mean, float a, float b, float* y, int64_t n);  // y = a (x - mean) + b
  // y[c] = join over k of x[k * inner + c] * (weights ? weights[k] : 1), c < columns. kind: 0 sum, 1 max, 2 min.
  void (*join_axis)(int kind, const float* x, const float* weights, float* y, int64_t axis, int64_t inner,
                    int64_t columns, float factor);
  // Bit i: element i of 64 is above `bound`, or below it; always set for NaN, and for all elements if `bound` is NaN.
  uint64_t (*beyond)(const float* x, float bound, bool above);
  // The indices of the k largest of n elements, or smallest, in order: NaN is larger than any number, of equals the
  // first comes first. k <= n <= kMaxShort.
  void (*best_of_short)(const float* x, int64_t n, int64_t k, bool largest, int32_t* indices);
};
constexpr int64_t kMaxShort = 128;

namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace peri::kernels::cpu::rows
