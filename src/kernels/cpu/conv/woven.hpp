// Transposed convolution in float32 whose groups have few channels, stored as planes, by stride phases: each output row
// is woven from the rows of its phases, which are ordinary thin convolutions of the image.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/conv/thin.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/match/transposed_match.hpp"

namespace peri::kernels::cpu::conv {

struct WovenPlan {
  struct Phase {
    int64_t first = 0, taps = 0;  // in `at`; all channels of a group
  };
  TransposedShape shape;
  Isa isa = Isa::kAvx2;
  std::vector<Phase> phases;  // [(oy + top) mod sh][(ox + left) mod sw]
  std::vector<int64_t> at;    // of each tap, from the image's element kept for the phase's first output
  // A task makes `rows` output rows and `columns` output columns of each phase. It keeps the parts of planes that it
  // reads, with zeros around them; these begin at (low_row, low_column) of the image for the first output.
  int64_t rows = 1, columns = 1, row_blocks = 1, column_blocks = 1;
  int64_t low_row = 0, low_column = 0, kept_rows = 1, pitch = 1;
  int64_t tasks = 0, scratch_floats = 0;

  int64_t channels() const { return shape.ic / shape.groups; }
  int64_t outs() const { return shape.oc / shape.groups; }
  int64_t kept_floats() const { return channels() * kept_rows * pitch + kThinSlack; }
};

struct WovenArgs {
  const float* x = nullptr;
  const float* w = nullptr;     // from pack_woven_weights
  const float* bias = nullptr;  // null: none
  float* y = nullptr;
};

// Why this shape is not offered, or empty. The extents of the image do not matter, unless one is empty.
std::string refuse_woven(const TransposedShape& shape);
WovenPlan plan_woven(const TransposedShape& shape, Isa isa);
// w and packed: [ic, oc / groups, kh, kw], the latter in the order of groups, phases, outputs and taps: the same for
// every image size, padding and Isa.
void pack_woven_weights(const float* w, const TransposedShape& shape, float* packed);
// Runs one of plan.tasks. `scratch` is private to the running task.
void run_task(const WovenPlan& plan, const WovenArgs& args, int64_t task, float* scratch);

}  // namespace peri::kernels::cpu::conv
