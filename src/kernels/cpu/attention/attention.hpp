// Fused attention in f32: softmax(Q K' * scale + mask) V by tiles of queries, with any strides, so that splitting and
// merging heads needs no transpose. Shape → plan → tasks; results do not depend on the threads.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu::attention {

// Distance in elements between adjacent indices of each dim.
struct Strides {
  int64_t batch = 0, head = 0, row = 0, step = 1;  // row: along positions; step: along the depth
};

enum class Mask : uint8_t {
  kNone,
  kAdd,   // f32, added to the scaled scores
  kBool,  // one byte, 0 hides the key
};

// Q [batch, heads, queries, depth], K [batch, kv_heads, keys, depth], V [batch, kv_heads, keys, value_depth], O like Q
// with value_depth. Head h reads K and V of head h / (heads / kv_heads). V and O have step 1. The result of a query
// without a visible key is NaN, or zero with zero_hidden.
struct Shape {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, depth = 1, value_depth = 1;
  float scale = 1;
  float cap = 0;  // not 0: scores are cap * tanh(score / cap) before the mask; normal
  Strides q, k, v, o;
  Mask mask = Mask::kNone;
  Strides mask_strides;  // row: along queries, step: along keys; 0 repeats
  bool causal = false;
  bool zero_hidden = false;
  int64_t causal_offset = 0;  // query i sees keys <= i + causal_offset (the number of keys before the first query)
};
struct Plan {
  Shape shape;
  Isa isa = Isa::kAvx2;
  int64_t tiles = 0;       // of queries
  int64_t tiles_each = 1;  // tiles per task
  int64_t blocks = 0;      // blocks of tiles: tasks per head
  int64_t tasks = 0;
  int64_t scratch = 0;
};
struct Args {
  const float* q;
  const float* k;
  const float* v;
  const void* mask;
  float* o;
};

// The strides of a dense [batch, positions, heads, depth] tensor: a projection's output before the head split.
Strides packed_heads(int64_t positions, int64_t heads, int64_t depth);
// The strides of a dense [batch, heads, positions, depth] tensor.
Strides split_heads(int64_t positions, int64_t heads, int64_t depth);

// `tiles_each`: tiles of queries per task.
Result<Plan> make_plan(const Shape& shape, Isa isa, int64_t tiles_each = 1);
int64_t task_count(const Plan& plan);
int64_t scratch_bytes(const Plan& plan);  // for each running task, 64-byte aligned
void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch);

}  // namespace peri::kernels::cpu::attention
