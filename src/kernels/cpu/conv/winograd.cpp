// Plan, weights and one task of a Winograd convolution: some tiles are transformed into L2, then panel by panel
// multiplied frequency by frequency, transformed back and stored.
#include "kernels/cpu/conv/winograd.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"

namespace peri::kernels::cpu {
namespace {

constexpr int64_t kMaxTiles = 28;  // of a block: two register tiles
constexpr double kTransformPanels =
    0.25;  // time of transforming the inputs: benchmarks/results/2026-11-29_task_grids.md

const WinogradTable& winograd_table(Isa isa) {
  return isa == Isa::kAvx512 ? winograd_table_avx512 : winograd_table_avx2;
}

int64_t most_tiles(const WinogradPlan& plan) { return (plan.tiles() + plan.tile_blocks - 1) / plan.tile_blocks; }

struct TilePlace {
  int64_t image, oy, ox;  // the tile's first output; its others lie a dilation apart
};

TilePlace place_of(const WinogradPlan& plan, int64_t tile) {
  const ConvShape& s = plan.shape;
  const int64_t tx = tile % plan.tiles_x, px = tile / plan.tiles_x % s.dw, rest = tile / plan.tiles_x / s.dw;
  const int64_t ty = rest % plan.tiles_y, py = rest / plan.tiles_y % s.dh;
  return {rest / plan.tiles_y / s.dh, py + ty * plan.m * s.dh, px + tx * plan.m * s.dw};
}

// Outputs from `first` on, `step` apart, that lie below `end`, at most m.
int64_t outputs(int64_t first, int64_t step, int64_t end, int64_t m) {
  return first >= end ? 0 : std::min(m, (end - first + step - 1) / step);
}

struct Task {
  const WinogradPlan& plan;
  const ConvArgs& args;
  int64_t tile0 = 0, tiles = 0;
  float* inputs = nullptr;  // [frequency][tile][channel]
  float* sums = nullptr;    // [frequency][tile][panel width]
  float* zeros = nullptr;
  RegisterStage stage;

  void transform_inputs();
  void multiply(int64_t panel);
  void transform_outputs(int64_t panel);
};

void Task::transform_inputs() {
  const ConvShape& s = plan.shape;
  const int64_t side = plan.side(), x_pixel = args.x_pixel != 0 ? args.x_pixel : s.ic;
  const WinogradTable& table = winograd_table(plan.isa);
  const float* pixels[36];
  std::memset(zeros, 0, static_cast<size_t>(s.ic) * sizeof(float));
  for (int64_t t = 0; t < tiles; ++t) {
    const TilePlace at = place_of(plan, tile0 + t);
    for (int64_t i = 0; i < side; ++i) {
      const int64_t iy = at.oy - s.top + i * s.dh;
      const bool inside = iy >= 0 && iy < s.ih;
      const float* line = args.x + (at.image * s.ih + (inside ? iy : 0)) * s.iw * x_pixel;
      for (int64_t j = 0; j < side; ++j) {
        const int64_t ix = at.ox - s.left + j * s.dw;
        pixels[i * side + j] = inside && ix >= 0 && ix < s.iw ? line + ix * x_pixel : zeros;
      }
    }
    const WinogradInput g{pixels, s.ic, inputs + t * s.ic, tiles * s.ic};
    (plan.m == 2 ? table.input2 : table.input4)(g);
  }
}

void Task::multiply(int64_t panel) {
  const ConvShape& s = plan.shape;
  const int64_t width = plan.panels.width(panel), frequencies = plan.frequencies();
  const float* rows[kMaxTiles];
  Sweep sweep;
  sweep.table = &tile_table(plan.isa);
  sweep.tiles = split_rows(tiles, sweep.table->max_rows >= 13 ? kMaxTileRows : sweep.table->max_rows);
  sweep.rows = rows;
  sweep.k = s.ic;
  sweep.panels = {width, plan.panels.panel_columns, 1, width};
  sweep.end_panel = 1;
  sweep.ldc = width;
  const float* weights = args.w + panel * plan.panels.panel_columns * frequencies * s.ic;
  for (int64_t f = 0; f < frequencies; ++f) {
    for (int64_t t = 0; t < tiles; ++t) rows[t] = inputs + (f * tiles + t) * s.ic;
    sweep.b = weights + f * s.ic * width;
    sweep.next = sweep.b + s.ic * width;  // past the last frequency: the next panel, or a harmless address
    sweep.c = sums + f * tiles * width;
    run_sweep(sweep);
  }
}

void Task::transform_outputs(int64_t panel) {
  const ConvShape& s = plan.shape;
  const int64_t oh = s.oh(), ow = s.ow(), y_pixel = args.y_pixel != 0 ? args.y_pixel : s.oc;
  const int64_t width = plan.panels.width(panel), column = panel * plan.panels.panel_columns;
  const WinogradTable& table = winograd_table(plan.isa);
  const int rest = args.epilogue.count - stage.consumed;
  WinogradOutput g;
  g.step = tiles * width;
  g.y_row = s.dh * ow * y_pixel;
  g.y_column = s.dw * y_pixel;
  g.channels = plan.panels.wanted(panel);
  g.stage = stage;
  if (stage.bias != nullptr) g.stage.bias = stage.bias + column;
  g.add_row = s.dh * ow * stage.add_ld;
  g.add_column = s.dw * stage.add_ld;
  for (int64_t t = 0; t < tiles; ++t) {
    const TilePlace at = place_of(plan, tile0 + t);
    g.rows = outputs(at.oy, s.dh, oh, plan.m);
    g.columns = outputs(at.ox, s.dw, ow, plan.m);
    if (g.rows == 0 || g.columns == 0) continue;
    const int64_t row = (at.image * oh + at.oy) * ow + at.ox;
    g.sums = sums + t * width;
    g.y = args.y + row * y_pixel + column;
    if (stage.add != nullptr) g.stage.add = stage.add + row * stage.add_ld + column;
    (plan.m == 2 ? table.output2 : table.output4)(g);
    for (int64_t i = 0; rest > 0 && i < g.rows; ++i) {
      for (int64_t j = 0; j < g.columns; ++j) {
        tile_table(plan.isa).post(g.y + i * g.y_row + j * g.y_column, y_pixel, 1, g.channels,
                                  args.epilogue.ops + stage.consumed, rest, row + i * s.dh * ow + j * s.dw, column);
      }
    }
  }
}

}  // namespace

std::string refuse_winograd(const ConvShape& s, int64_t m) {
  if (const std::string reason = refuse_conv(s); !reason.empty()) return reason;
  if (m != 2 && m != 4) return "tiles of 2 or 4 outputs only";
  if (s.kh != 3 || s.kw != 3) return "the kernel is not 3x3";
  if (s.sh != 1 || s.sw != 1) return "the stride is not 1";
  if (s.groups != 1 || s.x_form != XForm::kNhwc) return "one group and an NHWC input only";
  return {};
}

WinogradPlan plan_winograd(const ConvShape& shape, int64_t m, Isa isa, int64_t panels, int threads) {
  PERI_CHECK(refuse_winograd(shape, m).empty(), refuse_winograd(shape, m));
  WinogradPlan plan;
  plan.shape = shape;
  plan.isa = isa;
  plan.m = m;
  plan.panels = split_columns(shape.oc, tile_table(isa).lanes);
  const auto tiles = [m](int64_t outputs, int64_t dilation) {
    return ((outputs + dilation - 1) / dilation + m - 1) / m;
  };
  plan.tiles_y = tiles(shape.oh(), shape.dh);
  plan.tiles_x = tiles(shape.ow(), shape.dw);
  // The transformed inputs of a block stay in L2 while the panels pass.
  const int64_t most = plan.frequencies() * kMaxTiles * shape.ic <= 160'000 ? kMaxTiles : kMaxTiles / 2;
  plan.tile_blocks = (plan.tiles() + most - 1) / most;
  plan.panel_blocks = std::clamp<int64_t>(8 / plan.tile_blocks, 1, std::max<int64_t>(1, plan.panels.panels / 2));
  // Each block of panels transforms the inputs again.
  const auto time = [&](int64_t blocks) {
    const int64_t wide = (plan.panels.panels + blocks - 1) / blocks;
    return time_of_tasks(static_cast<double>(wide) + kTransformPanels, plan.tile_blocks * blocks, threads);
  };
  for (int64_t more = plan.panel_blocks + 1; more <= plan.panels.panels && threads > 1; ++more)
    if (time(more) < kFinerGain * time(plan.panel_blocks)) plan.panel_blocks = more;
  if (panels > 0) plan.panel_blocks = (plan.panels.panels + panels - 1) / panels;
  plan.tasks = plan.tile_blocks * plan.panel_blocks;
  plan.scratch_floats = plan.frequencies() * most_tiles(plan) * (shape.ic + plan.panels.panel_columns) + shape.ic;
  return plan;
}

int64_t packed_winograd_floats(const ConvShape& s, int64_t m, Isa isa) {
  return split_columns(s.oc, tile_table(isa).lanes).packed_floats((m + 2) * (m + 2) * s.ic);
}

void pack_winograd_weights(const float* w, const ConvShape& s, int64_t m, Isa isa, float* packed) {
  static const double kG2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  // Points 0, +-sqrt(1/2), +-sqrt(2), infinity: 1, p, p^2 over the product of the distances to the other points.
  constexpr double kA = 0.70710678118654752440, kB = 1.41421356237309504880;
  static const double kG4[6][3] = {{1, 0, 0},
                                   {-2.0 / 3, -2.0 / 3 * kA, -1.0 / 3},
                                   {-2.0 / 3, 2.0 / 3 * kA, -1.0 / 3},
                                   {1.0 / 6, kB / 6, 1.0 / 3},
                                   {1.0 / 6, -kB / 6, 1.0 / 3},
                                   {0, 0, 1}};
  const double(*g)[3] = m == 2 ? kG2 : kG4;
  const int64_t side = m + 2, frequencies = side * side;
  const PanelSplit panels = split_columns(s.oc, tile_table(isa).lanes);
  std::memset(packed, 0, static_cast<size_t>(panels.packed_floats(frequencies * s.ic)) * sizeof(float));
  for (int64_t o = 0; o < s.oc; ++o) {
    const int64_t p = o / panels.panel_columns, width = panels.width(p);
    float* out = packed + p * panels.panel_columns * frequencies * s.ic + o % panels.panel_columns;
    for (int64_t c = 0; c < s.ic; ++c) {
      const float* kernel = w + (o * s.ic + c) * 9;
      double half[6][3] = {};  // G w
      for (int64_t i = 0; i < side; ++i) {
        for (int64_t x = 0; x < 3; ++x) {
          half[i][x] = g[i][0] * double{kernel[x]} + g[i][1] * double{kernel[3 + x]} + g[i][2] * double{kernel[6 + x]};
        }
      }
      for (int64_t f = 0; f < frequencies; ++f) {
        const double* row = half[f / side];
        const double* by = g[f % side];
        out[(f * s.ic + c) * width] = static_cast<float>(row[0] * by[0] + row[1] * by[1] + row[2] * by[2]);
      }
    }
  }
}

void run_task(const WinogradPlan& plan, const ConvArgs& args, int64_t task, float* scratch) {
  const int64_t panel_block = task % plan.panel_blocks, tile_block = task / plan.panel_blocks;
  Task run{.plan = plan, .args = args};
  run.tile0 = part_begin(plan.tiles(), plan.tile_blocks, tile_block);
  run.tiles = part_begin(plan.tiles(), plan.tile_blocks, tile_block + 1) - run.tile0;
  run.inputs = scratch;
  run.sums = run.inputs + plan.frequencies() * most_tiles(plan) * plan.shape.ic;
  run.zeros = run.sums + plan.frequencies() * most_tiles(plan) * plan.panels.panel_columns;
  run.stage = register_stage(args.epilogue);
  run.transform_inputs();
  const int64_t end = part_begin(plan.panels.panels, plan.panel_blocks, panel_block + 1);
  for (int64_t p = part_begin(plan.panels.panels, plan.panel_blocks, panel_block); p < end; ++p) {
    run.multiply(p);
    run.transform_outputs(p);
  }
}

}  // namespace peri::kernels::cpu
