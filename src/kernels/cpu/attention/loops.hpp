// The inner loops of fused attention for one tile of queries. Plain types only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::attention {

// One (batch, head) and a tile of up to `tile_queries` queries; strides in elements. Scratch (floats): packed queries
// depth * tile, scores keys * tile, 2 * tile for sums and maxima.
struct Tile {
  const float* q;
  const float* k;
  const float* v;
  float* o;
  int64_t q_row, q_step, k_row, k_step, v_row, o_row;  // rows are positions, steps run along the depth
  int64_t queries;                                     // of this tile, 1 to the tile's size
  int64_t keys;                                        // visible to any query of this tile
  int64_t depth, value_depth;
  float scale, cap;          // cap 0: none
  const float* add_mask;     // null, or added to the scores
  const uint8_t* bool_mask;  // null, or 0 where a key is hidden
  int64_t mask_row, mask_step;
  int64_t causal_from;  // query i sees keys <= i + causal_from; INT64_MAX / 2: all
  bool zero_hidden;     // a query without a visible key gives zeros, not NaN
  float* scratch;
};

struct Loops {
  int64_t tile_queries;
  void (*run)(const Tile& tile);
};

namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace peri::kernels::cpu::attention
