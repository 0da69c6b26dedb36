// A pointwise convolution followed by a depthwise one, fused, float32, NHWC: a strip of rows of a block of channels
// passes through both while it is in L2, so that the wide tensor between them is never written to memory. Rows at the
// border of two strips are computed twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/conv/conv.hpp"

namespace peri::kernels::cpu {

struct PairShape {
  ConvShape first, second;  // second.ic == first.oc, second reads the result of first
};

struct PairPlan {
  PairShape shape;
  int64_t block = 0, blocks = 0;  // channels per block; the last may have fewer
  int64_t rows = 0, strips = 0;   // output rows per strip; the last may have fewer
  // By strip, whole blocks first, then those of the last block.
  std::vector<ConvPlan> first, second;
  int64_t tasks = 0;
  int64_t middle_floats = 0;
  int64_t scratch_floats = 0;  // per running task, 64-byte aligned

  int64_t channels(int64_t b) const { return b + 1 < blocks ? block : shape.first.oc - b * block; }
  size_t which(int64_t b, int64_t strip) const { return static_cast<size_t>((b + 1 < blocks ? 0 : strips) + strip); }
};

struct PairArgs {
  const float* x = nullptr;
  const float* w = nullptr;  // from pack_pair_weights
  float* y = nullptr;
  Epilogue first, second;  // only steps on single values and on columns
};

// Why this pair is not offered, or empty.
std::string refuse_pair(const PairShape& shape);
// `block`: channels per block, a multiple of 16; `strip_bytes`: limit of the intermediate tensor of a task; `threads`
// have a task each where strips of that few rows do not compute too much twice. Only for shapes that refuse_pair()
// accepts. Results depend on none of them.
PairPlan plan_pair(const PairShape& shape, int64_t block, int64_t strip_bytes, Isa isa, int threads = 1);

// Packed weights depend on the channels, the second kernel's size, the block and the Isa only.
int64_t packed_pair_floats(const PairShape& shape, int64_t block, Isa isa);
// first: [oc, ic, 1, 1], second: [oc, 1, kh, kw].
void pack_pair_weights(const float* first, const float* second, const PairShape& shape, int64_t block, Isa isa,
                       float* packed);

// Runs one of plan.tasks. `scratch` is private to the running task. Thread-safe.
void run_task(const PairPlan& plan, const PairArgs& args, int64_t task, float* scratch);

}  // namespace peri::kernels::cpu
