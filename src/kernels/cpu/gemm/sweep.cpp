// The two loops around the register tile, and the choice of tile function at the edges.
#include "kernels/cpu/gemm/sweep.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu {
namespace {
// Measured: benchmarks/results/2026-11-29_task_grids.md.
constexpr double kLateTask = 0.25;   // of a task
constexpr double kMinFlops = 2.5e5;  // of a task of a finer grid: some microseconds
constexpr int64_t kFewRows = 3;

// How many panels a tile of the sweep spans from `panel` on: several where few rows would not keep the FMA units busy,
// and such that no single one is left over.
int64_t panels_at_once(const Sweep& s, int64_t panel) {
  const int64_t most = s.tiles.rows(0), least = s.tiles.base, left = s.end_panel - panel;
  for (int64_t n = std::min<int64_t>(kMaxTilePanels, left); n > 1; --n) {
    const TileFn* fns = s.table->wide[n - 2];
    if (fns[most - 1] == nullptr || fns[least - 1] == nullptr) continue;
    if (s.panels.width(panel + n - 1) == s.panels.panel_columns && (left != n + 1 || n == 2)) return n;
  }
  return 1;
}

// Everything about a sweep that its tiles share, and the tile being run.
struct Runner {
  const Sweep& s;
  RegisterStage stage;
  bool passes = false;  // steps of the epilogue remain after the register stage
  TileArgs g;

  void run_panels(int64_t panel, int64_t at_once);
  void run_tile(int64_t tile, int64_t begin, int64_t rows, TileFn fn, const float* b, int64_t column);
};

void Runner::run_tile(int64_t tile, int64_t begin, int64_t rows, TileFn fn, const float* b, int64_t column) {
  int64_t first = s.first_tap, end = s.first_tap + s.taps;
  if (s.spans != nullptr) {
    first = std::max<int64_t>(first, s.spans[tile].begin);
    end = std::max(first, std::min<int64_t>(end, s.spans[tile].end));
  }
  g.taps = end - first;
  g.rows = s.rows + begin * s.all_taps + first * rows;
  g.b = b + (first - s.first_tap) * s.k * g.b_step;
  g.c = s.c + begin * s.ldc + column;
  if (stage.add != nullptr) g.stage.add = stage.add + (s.row0 + begin) * stage.add_ld + s.column0 + column;
  fn(g);
  if (passes) {
    s.table->post(g.c, s.ldc, rows, g.n, s.epilogue->ops + stage.consumed, s.epilogue->count - stage.consumed,
                  s.row0 + begin, s.column0 + column);
  }
}

void Runner::run_panels(int64_t panel, int64_t at_once) {
  const int64_t column = panel * s.panels.panel_columns;
  const bool thin = s.panels.width(panel) != s.panels.panel_columns;
  const TileFn* fns = at_once > 1 ? s.table->wide[at_once - 2] : thin ? s.table->one : s.table->two;
  const float* b = s.b + panel * s.b_panel_stride + s.b_row0 * s.panels.width(panel);
  g.b_step = s.panels.width(panel);
  g.n = (at_once - 1) * s.panels.panel_columns + s.panels.wanted(panel + at_once - 1);
  if (stage.bias != nullptr) g.stage.bias = stage.bias + s.column0 + column;
  // With one tile the hardware's own prefetch keeps up; with more, each walks over its share of the next panels.
  const bool more = panel + at_once < (s.next != nullptr ? s.end_panel : s.panels.panels);
  const float* next = more ? b + at_once * s.b_panel_stride : s.next;
  const bool ahead = s.tiles.count > 1 && next != nullptr;
  const int64_t share = (at_once * s.panels.panel_columns + s.tiles.count - 1) / s.tiles.count;
  g.prefetch = ahead ? next : b;
  g.prefetch_step = ahead ? share : 0;
  for (int64_t tile = 0, begin = 0; tile < s.tiles.count;) {
    for (int64_t i = 0; i < s.tiles.per_run; ++i, ++tile) {
      const int64_t rows = s.tiles.base + (i < s.tiles.extra ? 1 : 0);
      run_tile(tile, begin, rows, fns[rows - 1], b, column);
      begin += rows;
      g.prefetch += g.prefetch_step * s.taps * s.k;
    }
  }
}

}  // namespace

const TileTable& tile_table(Isa isa) {
  switch (isa) {
    case Isa::kAvx2: return tile_table_avx2;
    case Isa::kAvx512: return tile_table_avx512;
  }
  PERI_CHECK(false, "unknown isa");
}

TileSplit split_rows(int64_t rows, int64_t max_rows, int64_t runs) {
  TileSplit split;
  split.run_rows = rows / std::max<int64_t>(1, runs);
  if (split.run_rows == 0) return split;
  split.per_run = (split.run_rows + max_rows - 1) / max_rows;
  split.count = split.per_run * runs;
  split.base = split.run_rows / split.per_run;
  split.extra = split.run_rows % split.per_run;
  return split;
}

PanelSplit split_columns(int64_t columns, int lanes) {
  PanelSplit p;
  p.columns = columns;
  p.panel_columns = 2 * int64_t{lanes};
  p.panels = (columns + p.panel_columns - 1) / p.panel_columns;
  p.last_columns = columns - (p.panels - 1) * p.panel_columns <= lanes ? lanes : p.panel_columns;
  return p;
}

double time_of_tasks(double task, int64_t tasks, int threads) {
  const int64_t rounds = (tasks + threads - 1) / threads;
  return task * (static_cast<double>(rounds) + (threads > 1 ? kLateTask : 0));
}

Grid share_out(const Shared& work, const PanelSplit& panels, int threads, Cut cut) {
  const int64_t block_rows = cut.rows > 0 ? std::min(work.block_rows, cut.rows) : work.block_rows;
  const int64_t rows = work.rows, groups = (rows + work.group - 1) / work.group;
  Grid grid;
  grid.row_blocks = rows <= block_rows * 3 / 2 ? 1 : (rows + block_rows - 1) / block_rows;
  grid.row_blocks = std::min(grid.row_blocks, groups);
  const double panel_flops = 2.0 * static_cast<double>(rows) / static_cast<double>(grid.row_blocks) *
                             static_cast<double>(panels.panel_columns) *
                             static_cast<double>(std::max<int64_t>(1, work.depth));
  int64_t per_task = std::clamp<int64_t>(static_cast<int64_t>(4e6 / panel_flops), 1, 8);
  per_task = std::min(per_task, std::max<int64_t>(1, panels.panels * grid.row_blocks * work.products / 16));
  if (rows <= kFewRows) per_task = 4;
  if (cut.panels > 0) per_task = cut.panels;
  grid.panel_blocks = (panels.panels + per_task - 1) / per_task;
  if (threads <= 1) return grid;

  // The best of this and of finer grids.
  const auto time = [&](const Grid& g) {
    const int64_t lines = (groups + g.row_blocks - 1) / g.row_blocks * work.group;
    const int64_t wide = (panels.panels + g.panel_blocks - 1) / g.panel_blocks;
    return time_of_tasks((static_cast<double>(lines) + work.begin_rows) * static_cast<double>(wide),
                         g.row_blocks * g.panel_blocks * work.products, threads);
  };
  // Few rows take as long as their weights take to be read.
  const double total = panel_flops * static_cast<double>(grid.row_blocks * panels.panels * work.products) *
                       static_cast<double>(rows <= kFewRows ? kFewRows + 1 : 1);
  Grid best = grid;
  for (const int64_t finer : {1, 2, 4}) {
    if (finer > 1 && cut.rows > 0) break;
    for (const int64_t narrower : {1, 2, 4, 8}) {
      if (narrower > 1 && cut.panels > 0) break;
      const Grid g = {std::min(grid.row_blocks * finer, groups), std::min(grid.panel_blocks * narrower, panels.panels)};
      if (total / static_cast<double>(g.row_blocks * g.panel_blocks * work.products) < kMinFlops) continue;
      if (time(g) < kFinerGain * time(best)) best = g;
    }
  }
  return best;
}

void run_sweep(const Sweep& s) {
  Runner runner{s, {}, false, {}};
  if (s.last && s.epilogue != nullptr) {
    runner.stage = register_stage(*s.epilogue);
    runner.passes = runner.stage.consumed < s.epilogue->count;
  }
  TileArgs& g = runner.g;
  g.k = s.k;
  g.b_panel = s.b_panel_stride;
  g.ldc = s.ldc;
  g.accumulate = s.accumulate;
  g.last = s.last;
  g.stage = runner.stage;
  for (int64_t panel = s.first_panel; panel < s.end_panel;) {
    const int64_t at_once = panels_at_once(s, panel);
    runner.run_panels(panel, at_once);
    panel += at_once;
  }
}

}  // namespace peri::kernels::cpu
