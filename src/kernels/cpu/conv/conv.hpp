// Convolution in float32 as an implicit product, NHWC: rows are output pixels, read through pointers to the input
// pixels of each kernel tap, so nothing is copied; columns are output channels. Divided into tasks like a GEMM, with
// the same guarantees.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cpu/gemm/epilogue.hpp"
#include "kernels/cpu/gemm/sweep.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/match/conv_shape.hpp"

namespace peri::kernels::cpu {

using kernels::ConvShape;
using kernels::XForm;

enum class ConvKind : uint8_t {
  kPointers,   // a pointer for every (output pixel, tap)
  kRows,       // few input channels: input rows copied with their padding, a tap is a whole kernel row
  kDepthwise,  // groups = ic = oc: no sum over channels, vectors run along them
};

struct ConvPlan {
  ConvShape shape;
  Isa isa = Isa::kAvx2;
  ConvKind kind = ConvKind::kPointers;
  PanelSplit panels;         // per group of output channels
  int64_t row_blocks = 0;    // kPointers: over all output pixels; kRows, kDepthwise: over the output rows of one image
  int64_t panel_blocks = 0;  // kDepthwise: over the channels
  bool pointwise = false;    // kPointers: output pixel i reads input pixel i and no other
  bool row_tiles = false;    // kPointers: tiles end with an output row, so that taps in the padding above and below are
                             // left out; blocks are of whole output rows
  int64_t taps_at_once = 0;  // kernel taps in a block of depth
  int64_t tile_rows = 0;
  int64_t tasks = 0;
  int64_t scratch_floats = 0;  // per running task, 64-byte aligned
};

struct ConvArgs {
  const float* x = nullptr;
  int64_t x_pixel = 0;       // floats from pixel to pixel of x; 0: ic. Must be 0 for kNchw
  const float* w = nullptr;  // from pack_conv_weights
  float* y = nullptr;
  int64_t y_pixel = 0;  // 0: oc
  Epilogue epilogue;    // rows: output pixels over the batch; columns: output channels
};

// Why this shape is not offered, or empty.
std::string refuse_conv(const ConvShape& shape);
// Only for shapes that refuse_conv() accepts. Settings of the work per task, for the forms of convolution that use such
// pieces; 0: derived.
struct ConvCut {
  int64_t pixels = 0, lines = 0, panels = 0;
};
ConvPlan plan_conv(const ConvShape& shape, Isa isa, ConvCut cut = {}, int threads = 1);
std::string plan_text(const ConvPlan& plan);

// Packed weights depend on oc, ic, kh, kw, groups and the Isa only: they are valid for every image size.
int64_t packed_conv_floats(const ConvShape& shape, Isa isa);
// w: [oc, ic / groups, kh, kw]; packed: packed_conv_floats(shape, isa) floats, 64-byte aligned.
void pack_conv_weights(const float* w, const ConvShape& shape, Isa isa, float* packed);

// Runs one of plan.tasks. `scratch` is private to the running task. Thread-safe; needs a CPU that has plan.isa.
void run_task(const ConvPlan& plan, const ConvArgs& args, int64_t task, float* scratch);

}  // namespace peri::kernels::cpu
