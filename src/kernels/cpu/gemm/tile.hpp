// The register tile: the only place with multiply-adds, for GEMM and convolution alike. Each output element is one
// chain of fused multiply-adds in ascending (tap, k) order, so its bits do not depend on the tile's shape, the position
// in it, the blocking of k, the task, the thread or the Isa.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/epilogue.hpp"

namespace peri::kernels::cpu {

enum class Isa;  // isa.hpp, which sources compiled per ISA must not include

// c[r][j] (+)= sum over t < taps, i < k of rows[t * mr + r][i] * b[...]; reads and writes nothing but the named
// elements.
struct TileArgs {
  const float* const* rows = nullptr;  // [taps][mr]: start of each row's k floats of a tap
  int64_t taps = 1;
  int64_t k = 0;
  const float* b = nullptr;  // row (t * k + i) at b + (t * k + i) * b_step, readable over the full tile width
  int64_t b_step = 0;        // floats
  int64_t b_panel = 0;       // floats between adjacent panels, where the tile spans several
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t n = 0;                    // columns to compute, in ((panels - 1) * panel width, panels * panel width]
  bool accumulate = false;          // start from c, not from zero
  bool last = true;                 // apply `stage`; false between blocks of k
  RegisterStage stage;              // bias points at the tile's first column, add at its first element
  const float* prefetch = nullptr;  // advances along the next panel to load it into L2; may point anywhere
  int64_t prefetch_step = 0;        // floats per step of k
};

using TileFn = void (*)(const TileArgs&);
// Applies ops[0..count) in order to rows x cols of c; r0, c0: the tile's position in the whole result.
using PostFn = void (*)(float* c, int64_t ldc, int64_t rows, int64_t cols, const PostOp* ops, int count, int64_t r0,
                        int64_t c0);

constexpr int kMaxTileRows = 14;
constexpr int kMaxTilePanels = 4;

// The tiles of one Isa, indexed [rows - 1]; null where a shape is not offered.
struct TileTable {
  int lanes = 0;                                  // floats in a vector
  int max_rows = 0;                               // rows of the largest tile
  TileFn one[kMaxTileRows];                       // one vector wide: a last panel of that width
  TileFn two[kMaxTileRows];                       // two vectors wide: a panel
  TileFn wide[kMaxTilePanels - 1][kMaxTileRows];  // [panels - 2]: several panels at once, for few rows
  PostFn post = nullptr;
};
const TileTable& tile_table(Isa isa);

extern const TileTable tile_table_avx2;
extern const TileTable tile_table_avx512;

}  // namespace peri::kernels::cpu
