// One task's block of a product: every tile of some rows times some panels, panel by panel, so that a panel is read
// from memory once and stays in L2 while the rows are multiplied with it.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/tile.hpp"

namespace peri::kernels::cpu {

// Rows divided among the fewest tiles of at most `max_rows`, as evenly as possible, the larger ones first; either all
// rows together, or each of `runs` equal runs of rows separately.
struct TileSplit {
  int64_t count = 0;                         // total number of tiles
  int64_t per_run = 0, base = 0, extra = 0;  // tiles per run; rows per tile; the first `extra` have one more
  int64_t run_rows = 0;
  int64_t rows(int64_t tile) const { return base + (tile % per_run < extra ? 1 : 0); }
  int64_t begin(int64_t tile) const {
    const int64_t run = tile / per_run, i = tile - run * per_run;
    return run * run_rows + i * base + (i < extra ? i : extra);
  }
};
TileSplit split_rows(int64_t rows, int64_t max_rows, int64_t runs = 1);

// The first element of part `i` of `parts` nearly equal parts of [0, total).
inline int64_t part_begin(int64_t total, int64_t parts, int64_t i) {
  return i * (total / parts) + (i < total % parts ? i : total % parts);
}

// Columns in panels: all panels are two vectors wide except the last, which is one vector wide if that suffices. A
// packed matrix of depth k holds panel p at p * panel_columns * k, each panel [k][its width], missing columns zero.
struct PanelSplit {
  int64_t columns = 0;        // in use
  int64_t panel_columns = 0;  // of a whole panel
  int64_t panels = 0;
  int64_t last_columns = 0;  // width of the last panel: panel_columns or half of it
  int64_t packed_floats(int64_t depth) const {
    return panels == 0 ? 0 : ((panels - 1) * panel_columns + last_columns) * depth;
  }
  int64_t width(int64_t panel) const { return panel == panels - 1 ? last_columns : panel_columns; }
  int64_t wanted(int64_t panel) const { return panel == panels - 1 ? columns - panel * panel_columns : panel_columns; }
};
PanelSplit split_columns(int64_t columns, int lanes);

// The number of blocks of rows and of panels into which each of `products` products is divided: enough tasks for an
// even distribution over `threads`, none so small that its overhead matters. Results do not depend on it.
struct Grid {
  int64_t row_blocks = 1, panel_blocks = 1;
};
// Settings of the work per task that replace what share_out() derives; 0: derived.
struct Cut {
  int64_t rows = 0, panels = 0;
};
// What is shared out: of products that have `depth` terms a sum; blocks are of whole groups of `group` rows. What a
// task does before its first row takes as long as `begin_rows` rows of each of its panels.
struct Shared {
  int64_t rows = 0, block_rows = 0, depth = 0, products = 1, group = 1;
  double begin_rows = 1.7;
};
Grid share_out(const Shared& work, const PanelSplit& panels, int threads, Cut cut = {});

// The time of `tasks` equal tasks, each of time `task`, on `threads` threads that take one when they are free. Of
// several threads one is often late, by a part of a task: of two grids that divide evenly the finer one takes less.
double time_of_tasks(double task, int64_t tasks, int threads);
// Another grid is taken where its time is below this part of that of the first. Measured, as is what stands behind
// Shared: benchmarks/results/2026-11-29_task_grids.md.
inline constexpr double kFinerGain = 0.95;

// The kernel taps of a tile that are not padding for all its rows: the others contribute nothing and are skipped.
struct TapSpan {
  int32_t begin = 0, end = 0;
};

struct Sweep {
  const TileTable* table = nullptr;
  TileSplit tiles;
  const float* const* rows =
      nullptr;  // per tile [all_taps][tile rows]: a tile beginning at row r has r * all_taps before
  int64_t all_taps = 1;
  int64_t first_tap = 0, taps = 1;  // the taps to process now
  const TapSpan* spans = nullptr;   // per tile; null: every tile uses all taps
  int64_t k = 0;                    // per tap
  PanelSplit panels;
  int64_t first_panel = 0, end_panel = 0;
  const float* b = nullptr;     // packed: row 0 of panel 0
  int64_t b_panel_stride = 0;   // floats from panel to panel
  int64_t b_row0 = 0;           // the first row to process
  const float* next = nullptr;  // what is read after the last panel, to be prefetched; null: the panel after it
  float* c = nullptr;           // element (first row of this block, column 0)
  int64_t ldc = 0;
  bool accumulate = false;  // c holds the sums of earlier blocks of k
  bool last = true;         // this is the last block of k: apply the epilogue
  const Epilogue* epilogue = nullptr;
  int64_t row0 = 0, column0 = 0;  // position of c in the whole result, for the epilogue
};
void run_sweep(const Sweep& s);

}  // namespace peri::kernels::cpu
