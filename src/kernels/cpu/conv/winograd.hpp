// 3x3 convolution at stride 1 by Winograd's minimal filtering F(m x m, 3 x 3), NHWC: 2.25 (m = 2) or 4 (m = 4) times
// fewer multiplications than the direct sum, with different rounding. Method: A. Lavin, S. Gray, "Fast Algorithms for
// Convolutional Neural Networks" (2015), points 0, +-1 (+-2), infinity. Error measured against float64 over seeds and
// sizes: see kWinogradErrorFactor.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cpu/conv/conv.hpp"

namespace peri::kernels::cpu {

struct WinogradPlan {
  ConvShape shape;
  Isa isa = Isa::kAvx2;
  int64_t m = 0;  // output extent of a tile along an axis: 2 or 4
  PanelSplit panels;
  int64_t tiles_y = 0, tiles_x = 0;  // of one dilation phase of one image
  int64_t tile_blocks = 0;           // over all tiles
  int64_t panel_blocks = 0;
  int64_t tasks = 0;
  int64_t scratch_floats = 0;  // per running task, 64-byte aligned

  int64_t side() const { return m + 2; }
  int64_t frequencies() const { return side() * side(); }
  int64_t tiles() const { return shape.n * shape.dh * tiles_y * shape.dw * tiles_x; }
};

// |computed - exact| <= factor * sqrt(9 * ic) * 2^-24 * sum |terms| of the direct sum, before the epilogue, for inputs
// and weights of similar magnitude; single outputs whose terms are far smaller than their neighbours' can exceed it.
constexpr double kWinogradErrorFactor2 = 1, kWinogradErrorFactor4 = 4;

// Why this shape is not offered for m, or empty.
std::string refuse_winograd(const ConvShape& shape, int64_t m);
// `panels`: of output channels per task; 0: derived.
WinogradPlan plan_winograd(const ConvShape& shape, int64_t m, Isa isa, int64_t panels = 0, int threads = 1);

// Packed weights depend on oc, ic, m and the Isa only. w: [oc, ic, 3, 3].
int64_t packed_winograd_floats(const ConvShape& shape, int64_t m, Isa isa);
void pack_winograd_weights(const float* w, const ConvShape& shape, int64_t m, Isa isa, float* packed);

// As for a direct convolution.
void run_task(const WinogradPlan& plan, const ConvArgs& args, int64_t task, float* scratch);

// The transforms of one tile, compiled once per Isa.
struct WinogradInput {
  const float* const* pixels = nullptr;  // [side][side]
  int64_t channels = 0;
  float* out = nullptr;  // frequency f at out + f * step
  int64_t step = 0;
};
struct WinogradOutput {
  const float* sums = nullptr;  // frequency f at sums + f * step, whole vectors readable
  int64_t step = 0;
  float* y = nullptr;  // output (i, j) at y + i * y_row + j * y_column
  int64_t y_row = 0, y_column = 0;
  int64_t rows = 0, columns = 0;  // outputs inside the image, <= m each
  int64_t channels = 0;
  RegisterStage stage;                  // bias at the first channel, add at the first output
  int64_t add_row = 0, add_column = 0;  // floats of `add` from output to output
};
struct WinogradTable {
  void (*input2)(const WinogradInput&);
  void (*input4)(const WinogradInput&);
  void (*output2)(const WinogradOutput&);
  void (*output4)(const WinogradOutput&);
};
extern const WinogradTable winograd_table_avx2;
extern const WinogradTable winograd_table_avx512;

}  // namespace peri::kernels::cpu
