// Kernels over the rows of a tensor in f32: softmax, normalisations, reductions over an axis. Each: shape → plan (pure
// data) → task_count() tasks that may run concurrently and in any order; results do not depend on the threads. No
// scratch.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu::rows {

// softmax over the middle dim of [outer, axis, inner] of x * scale + mask; `log`: its logarithm. A row of only -Inf, or
// with NaN or +Inf, is NaN. The mask (inner == 1 only) is read at sum(coordinate[d] * mask_strides[d]) over outer =
// mask_dims[0] * [1] * [2], plus mask_axis_stride (0 or 1) along the row. y may be x.
struct SoftmaxShape {
  int64_t outer = 1, axis = 1, inner = 1;
  bool log = false;
  float scale = 1;
  bool masked = false;
  int64_t mask_dims[3] = {1, 1, 1};
  int64_t mask_strides[3] = {0, 0, 0};
  int64_t mask_axis_stride = 1;
};
struct SoftmaxPlan {
  SoftmaxShape shape;
  Isa isa = Isa::kAvx2;
  int64_t units = 0, tasks = 0, column_block = 0;
};
struct SoftmaxArgs {
  const float* x;
  const float* mask;
  float* y;
};
// `rows`: per task, or blocks of columns; 0: derived.
Result<SoftmaxPlan> make_plan(const SoftmaxShape& shape, Isa isa, int64_t rows = 0);
int64_t task_count(const SoftmaxPlan& plan);
void run_task(const SoftmaxPlan& plan, const SoftmaxArgs& args, int64_t task);

// Normalises each row of [rows, n]: v = x + residual + residual_bias (n), then LayerNorm (mean and variance) or
// RMSNorm. scale and bias have n elements. y may be x; y may not be the residual.
enum class Norm : uint8_t { kLayer, kRms };
struct NormShape {
  Norm norm = Norm::kLayer;
  int64_t rows = 1, n = 1;
  float epsilon = 1e-5f;
};
struct NormPlan {
  NormShape shape;
  Isa isa = Isa::kAvx2;
  int64_t tasks = 0;
};
struct NormArgs {  // null: absent, except x and y
  const float* x;
  const float* residual;
  const float* residual_bias;
  const float* scale;
  const float* bias;
  float* y;
  float* sum_out;      // v, [rows, n]
  float* mean_out;     // [rows] (0 for RMSNorm)
  float* inverse_out;  // [rows], 1 / sqrt(variance + epsilon)
};
// `rows`: per task; 0: derived.
Result<NormPlan> make_plan(const NormShape& shape, Isa isa, int64_t rows = 0);
int64_t task_count(const NormPlan& plan);
void run_task(const NormPlan& plan, const NormArgs& args, int64_t task);

// GroupNorm of [batch, channels, spatial]: mean and variance over each of `groups` groups of channels; groups ==
// channels is InstanceNorm. scale and bias by channel. y may be x.
struct GroupNormShape {
  int64_t batch = 1, channels = 1, spatial = 1, groups = 1;
  float epsilon = 1e-5f;
};
struct GroupNormPlan {
  GroupNormShape shape;
  Isa isa = Isa::kAvx2;
  int64_t tasks = 0;
};
struct GroupNormArgs {
  const float* x;
  const float* scale;  // null: 1
  const float* bias;   // null: 0
  float* y;
};
Result<GroupNormPlan> make_plan(const GroupNormShape& shape, Isa isa);
int64_t task_count(const GroupNormPlan& plan);
void run_task(const GroupNormPlan& plan, const GroupNormArgs& args, int64_t task);

// Reduces the middle dim of [outer, axis, inner] to [outer, inner]. kMean divides by axis. With weights [outer, axis],
// kSum and kMean weight the elements, and kMean divides by max(sum of weights, 1e-9): masked mean pooling.
enum class Join : uint8_t { kSum, kMean, kMax, kMin };
struct JoinShape {
  Join join = Join::kSum;
  int64_t outer = 1, axis = 1, inner = 1;
  bool weighted = false;
};
struct JoinPlan {
  JoinShape shape;
  Isa isa = Isa::kAvx2;
  int64_t column_block = 0, units = 0, tasks = 0;
};
struct JoinArgs {
  const float* x;
  const float* weights;
  float* y;
};
Result<JoinPlan> make_plan(const JoinShape& shape, Isa isa);
int64_t task_count(const JoinPlan& plan);
void run_task(const JoinPlan& plan, const JoinArgs& args, int64_t task);

}  // namespace peri::kernels::cpu::rows
