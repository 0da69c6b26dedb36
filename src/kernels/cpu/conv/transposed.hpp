// Transposed convolution in float32, NHWC, by stride phases: the outputs of one phase (oy mod sh, ox mod sw) are an
// ordinary convolution with the taps that contribute to it, so that every output is computed once and no sum passes
// through memory.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cpu/conv/conv.hpp"
#include "kernels/match/transposed_match.hpp"

namespace peri::kernels::cpu {

using kernels::TransposedShape;

struct TransposedPlan {
  TransposedShape shape;
  Isa isa = Isa::kAvx2;
  PanelSplit panels;       // of the output channels of one group
  int64_t row_blocks = 0;  // of the output rows of all images
  int64_t panel_blocks = 0;
  int64_t tasks = 0;
  int64_t scratch_floats = 0;  // per running task, 64-byte aligned
};

// Why this shape or epilogue is not offered, or empty.
std::string refuse_transposed(const TransposedShape& shape, const Epilogue& epilogue = {});
TransposedPlan plan_transposed(const TransposedShape& shape, Isa isa);

// Packed weights depend on channels, kernel, strides, dilations, groups and the Isa only.
int64_t packed_transposed_floats(const TransposedShape& shape, Isa isa);
// w: [ic, oc / groups, kh, kw].
void pack_transposed_weights(const float* w, const TransposedShape& shape, Isa isa, float* packed);

// As for a convolution; args.epilogue must not contain steps by row.
void run_task(const TransposedPlan& plan, const ConvArgs& args, int64_t task, float* scratch);

}  // namespace peri::kernels::cpu
