// The two loops around the register tile, and the choice of tile function at the edges.
#include "kernels/cpu/gemm/sweep.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu {
namespace {

// Pointers of the register stage moved to the tile at (row, column) of the whole result.
RegisterStage stage_at(const RegisterStage& stage, int64_t row, int64_t column) {
  RegisterStage at = stage;
  if (at.bias != nullptr) at.bias += column;
  if (at.add != nullptr) at.add += row * at.add_ld + column;
  return at;
}

struct Span {
  TileFn fn = nullptr;
  int64_t panels = 1;
  int64_t columns = 0;  // wanted
};

// The tile function for `rows` rows from `panel` on: several panels at once where few rows would starve the FMA units.
Span choose(const Sweep& s, int64_t panel, int64_t rows) {
  const int64_t wide = s.table->wide_panels[rows - 1];
  if (wide > 1 && s.tiles.count == 1 && panel + wide <= s.end_panel &&
      s.panels.width(panel + wide - 1) == s.panels.panel_columns) {
    return {s.table->two_wide[rows - 1], wide, (wide - 1) * s.panels.panel_columns + s.panels.wanted(panel + wide - 1)};
  }
  const bool thin = s.panels.width(panel) != s.panels.panel_columns;
  return {thin ? s.table->one[rows - 1] : s.table->two[rows - 1], 1, s.panels.wanted(panel)};
}

}  // namespace

const TileTable& tile_table(Isa isa) {
  switch (isa) {
    case Isa::kAvx2: return tile_table_avx2;
    case Isa::kAvx512: return tile_table_avx512;
  }
  PERI_CHECK(false, "unknown isa");
}

TileSplit split_rows(int64_t rows, int64_t max_rows) {
  const int64_t count = (rows + max_rows - 1) / max_rows;
  return count == 0 ? TileSplit{} : TileSplit{count, rows / count, rows % count};
}

PanelSplit split_columns(int64_t columns, int lanes) {
  PanelSplit p;
  p.columns = columns;
  p.panel_columns = 2 * int64_t{lanes};
  p.panels = (columns + p.panel_columns - 1) / p.panel_columns;
  p.last_columns = columns - (p.panels - 1) * p.panel_columns <= lanes ? lanes : p.panel_columns;
  return p;
}

Grid share_out(int64_t rows, int64_t block_rows, int64_t depth, const PanelSplit& panels, int64_t products) {
  Grid grid;
  grid.row_blocks = rows <= block_rows * 3 / 2 ? 1 : (rows + block_rows - 1) / block_rows;
  const double panel_flops = 2.0 * static_cast<double>(rows) / static_cast<double>(grid.row_blocks) *
                             static_cast<double>(panels.panel_columns) *
                             static_cast<double>(std::max<int64_t>(1, depth));
  int64_t per_task = std::clamp<int64_t>(static_cast<int64_t>(4e6 / panel_flops), 1, 8);
  per_task = std::min(per_task, std::max<int64_t>(1, panels.panels * grid.row_blocks * products / 16));
  if (rows <= 3) per_task = 4;
  grid.panel_blocks = (panels.panels + per_task - 1) / per_task;
  return grid;
}

void run_sweep(const Sweep& s) {
  const RegisterStage stage = s.last && s.epilogue != nullptr ? register_stage(*s.epilogue) : RegisterStage{};
  const bool passes = s.last && s.epilogue != nullptr && stage.consumed < s.epilogue->count;
  // With one tile the hardware's own prefetch keeps up; with more, each walks over its share of the next panel.
  const bool ahead = s.tiles.count > 1;
  for (int64_t panel = s.first_panel; panel < s.end_panel;) {
    const Span span = choose(s, panel, s.tiles.rows(0));
    const int64_t column = panel * s.panels.panel_columns;
    TileArgs g;
    g.taps = s.taps;
    g.k = s.k;
    g.b = s.b + panel * s.b_panel_stride + s.b_row0 * s.panels.width(panel);
    g.b_step = s.panels.width(panel);
    g.b_panel = s.b_panel_stride;
    g.ldc = s.ldc;
    g.accumulate = s.accumulate;
    g.last = s.last;
    const bool next = ahead && panel + 1 < s.panels.panels;
    const int64_t share = (s.panels.panel_columns + s.tiles.count - 1) / s.tiles.count;
    for (int64_t t = 0; t < s.tiles.count; ++t) {
      const int64_t begin = s.tiles.begin(t), rows = s.tiles.rows(t);
      const Span tile = rows == s.tiles.rows(0) ? span : choose(s, panel, rows);
      g.rows = s.rows + begin * s.all_taps + s.first_tap * rows;
      g.c = s.c + begin * s.ldc + column;
      g.n = tile.columns;
      g.stage = stage_at(stage, s.row0 + begin, s.column0 + column);
      g.prefetch = next ? g.b + s.b_panel_stride + t * share * s.taps * s.k : g.b;
      g.prefetch_step = next ? share : 0;
      tile.fn(g);
      if (passes) {
        s.table->post(g.c, s.ldc, rows, g.n, s.epilogue->ops + stage.consumed, s.epilogue->count - stage.consumed,
                      s.row0 + begin, s.column0 + column);
      }
    }
    panel += span.panels;
  }
}

}  // namespace peri::kernels::cpu
