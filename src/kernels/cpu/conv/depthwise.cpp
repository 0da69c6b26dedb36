// One task of a depthwise convolution: some rows of one image, some channels, row by row in tiles of up to eight
// columns.
#include "kernels/cpu/conv/depthwise.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"

namespace peri::kernels::cpu {
namespace {

// What the tiles of one task share, and the output row being made.
struct Rows {
  const ConvShape& s;
  const ConvArgs& args;
  const DepthwiseFn *plain = nullptr, *sliding = nullptr, *edge = nullptr;  // the last two: null where there are none
  PostFn post = nullptr;
  const float* x = nullptr;  // the image's first pixel, the task's first channel
  const float* zeros = nullptr;
  const float** table = nullptr;
  TileSplit split;
  int64_t c0 = 0;
  RegisterStage stage;
  DepthwiseTile g;
  int64_t oy = 0, ky0 = 0, row0 = 0;  // output row, the kernel's first row inside the image, the row's first pixel

  const float* line(int64_t ky) const { return x + (oy * s.sh - s.top + ky * s.dh) * s.iw * g.x_pixel; }
  void run_row(int64_t image, int64_t row);
  int64_t run_at(int64_t tile);
  void run_tiles(DepthwiseFn fn, int64_t ox, int64_t columns, int64_t repeat);
  void fill_table(int64_t ox, int64_t columns);
};

// The pixels a tile of `columns` outputs from column ox reads.
void Rows::fill_table(int64_t ox, int64_t columns) {
  const float** out = table;
  for (int64_t ky = ky0; ky < ky0 + g.kh; ++ky) {
    const float* pixels = line(ky);
    for (int64_t kx = 0; kx < s.kw; ++kx) {
      for (int64_t o = 0; o < columns; ++o) {
        const int64_t ix = (ox + o) * s.sw - s.left + kx * s.dw;
        *out++ = ix >= 0 && ix < s.iw ? pixels + ix * g.x_pixel : zeros;
      }
    }
  }
}

void Rows::run_tiles(DepthwiseFn fn, int64_t ox, int64_t columns, int64_t repeat) {
  const int64_t row = row0 + ox;
  g.repeat = repeat;
  g.y = args.y + row * g.y_pixel + c0;
  if (stage.add != nullptr) g.stage.add = stage.add + row * stage.add_ld + c0;
  fn(g);
  const int rest = args.epilogue.count - stage.consumed;
  if (rest > 0) {
    post(g.y, g.y_pixel, columns * repeat, g.channels, args.epilogue.ops + stage.consumed, rest, row, c0);
  }
}

// Runs the tile, and as many after it as one call can; how many.
int64_t Rows::run_at(int64_t tile) {
  const int64_t ox = split.begin(tile), columns = split.rows(tile);
  g.first = ox * s.sw - s.left;
  const int64_t reach = g.first + (columns - 1) * s.sw + s.kw;  // one beyond the tile's last pixel
  g.before = std::max<int64_t>(0, -g.first);
  g.behind = std::max<int64_t>(0, reach - s.iw);
  if (sliding == nullptr || g.before >= s.kw || g.behind >= s.kw) {
    fill_table(ox, columns);
    run_tiles(plain[columns - 1], ox, columns, 1);
    return 1;
  }
  if (g.before > 0 || g.behind > 0) {
    run_tiles(edge[columns - 1], ox, columns, 1);
    return 1;
  }
  const int64_t inside = (s.iw - reach) / (columns * s.sw) + 1;
  const int64_t repeat = std::min(inside, (tile < split.extra ? split.extra : split.count) - tile);
  run_tiles(sliding[columns - 1], ox, columns, repeat);
  return repeat;
}

void Rows::run_row(int64_t image, int64_t row) {
  oy = row;
  row0 = (image * s.oh() + oy) * s.ow();
  const int64_t iy = oy * s.sh - s.top;
  ky0 = iy < 0 ? std::min((-iy + s.dh - 1) / s.dh, s.kh) : 0;
  const int64_t ky1 = iy >= s.ih ? 0 : std::min((s.ih - iy + s.dh - 1) / s.dh, s.kh);
  g.kh = std::max<int64_t>(0, ky1 - ky0);
  g.w = args.w + ky0 * s.kw * g.w_step + c0;
  g.x = g.kh > 0 ? line(ky0) : x;
  for (int64_t tile = 0; tile < split.count;) tile += run_at(tile);
}

}  // namespace

const DepthwiseTable& depthwise_table(Isa isa) {
  return isa == Isa::kAvx512 ? depthwise_table_avx512 : depthwise_table_avx2;
}

void run_depthwise(const ConvPlan& plan, const ConvArgs& args, int64_t task, float* scratch) {
  const ConvShape& s = plan.shape;
  constexpr int64_t kUnit = 32;  // channels are shared out in whole vectors
  const int64_t part = task % plan.panel_blocks, block = task / plan.panel_blocks % plan.row_blocks;
  const int64_t image = task / plan.panel_blocks / plan.row_blocks;
  const int64_t oh = s.oh(), ow = s.ow(), units = (s.oc + kUnit - 1) / kUnit;
  const int64_t c0 = part_begin(units, plan.panel_blocks, part) * kUnit;
  const int64_t c1 = std::min(s.oc, part_begin(units, plan.panel_blocks, part + 1) * kUnit);
  const int64_t x_pixel = args.x_pixel != 0 ? args.x_pixel : s.ic;
  const DepthwiseTable& table = depthwise_table(plan.isa);
  Rows rows{.s = s, .args = args};
  const bool sliding = s.dw == 1 && (s.kw == 3 || s.kw == 5) && (s.sw == 1 || s.sw == 2);
  rows.plain = table.plain;
  if (sliding) {
    rows.sliding = table.sliding[s.kw == 5][s.sw == 2];
    rows.edge = table.edge[s.kw == 5][s.sw == 2];
  }
  rows.post = tile_table(plan.isa).post;
  rows.x = args.x + image * s.ih * s.iw * x_pixel + c0;
  rows.table = reinterpret_cast<const float**>(scratch);
  float* zeros = scratch + 2 * s.kh * std::max(s.kw * kMaxDepthwiseColumns, kMaxDepthwiseColumns * s.sw + s.kw);
  std::memset(zeros, 0, static_cast<size_t>(c1 - c0) * sizeof(float));
  rows.zeros = zeros;
  rows.split = split_rows(ow, kMaxDepthwiseColumns);
  rows.c0 = c0;
  rows.stage = register_stage(args.epilogue);
  DepthwiseTile& g = rows.g;
  g.x_row = s.dh * s.iw * x_pixel;
  g.x_pixel = x_pixel;
  g.pixels = rows.table;
  g.kw = s.kw;
  g.w_step = s.oc;
  g.y_pixel = args.y_pixel != 0 ? args.y_pixel : s.oc;
  g.channels = c1 - c0;
  g.stage = rows.stage;
  if (g.stage.bias != nullptr) g.stage.bias += c0;
  const int64_t end = part_begin(oh, plan.row_blocks, block + 1);
  for (int64_t oy = part_begin(oh, plan.row_blocks, block); oy < end; ++oy) rows.run_row(image, oy);
}

}  // namespace peri::kernels::cpu
