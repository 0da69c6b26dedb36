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
  const DepthwiseFn *by_table = nullptr, *strided = nullptr;  // strided: null where there is none
  bool slides = false;                                        // the table is of neighbouring pixels, not of taps
  PostFn post = nullptr;
  const float* x = nullptr;  // the image's first pixel, the task's first channel
  const float* zeros = nullptr;
  const float** table = nullptr;
  TileSplit split;
  int64_t c0 = 0;
  RegisterStage stage;
  DepthwiseTile g;
  int64_t oy = 0, ky0 = 0, row0 = 0;  // output row, the kernel's first row inside the image, the row's first pixel

  void run_row(int64_t image, int64_t line);
  void run_tiles(DepthwiseFn fn, int64_t ox, int64_t columns, int64_t repeat);
  void fill_table(int64_t ox, int64_t columns);
};

// The pixels a tile of `columns` outputs from column ox reads.
void Rows::fill_table(int64_t ox, int64_t columns) {
  const float** out = table;
  for (int64_t ky = ky0; ky < ky0 + g.kh; ++ky) {
    const float* line = x + (oy * s.sh - s.top + ky * s.dh) * g.x_row;
    const auto pixel = [&](int64_t ix) { return ix >= 0 && ix < s.iw ? line + ix * g.x_pixel : zeros; };
    if (slides) {
      const int64_t first = ox * s.sw - s.left, count = (columns - 1) * s.sw + s.kw;
      for (int64_t i = 0; i < count; ++i) *out++ = pixel(first + i);
    } else {
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        for (int64_t o = 0; o < columns; ++o) *out++ = pixel((ox + o) * s.sw - s.left + kx * s.dw);
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

void Rows::run_row(int64_t image, int64_t line) {
  oy = line;
  row0 = (image * s.oh() + oy) * s.ow();
  const int64_t iy = oy * s.sh - s.top;
  ky0 = iy < 0 ? std::min((-iy + s.dh - 1) / s.dh, s.kh) : 0;
  const int64_t ky1 = iy >= s.ih ? 0 : std::min((s.ih - iy + s.dh - 1) / s.dh, s.kh);
  g.kh = std::max<int64_t>(0, ky1 - ky0);
  g.w = args.w + ky0 * s.kw * g.w_step + c0;
  for (int64_t t = 0; t < split.count;) {
    const int64_t ox = split.begin(t), columns = split.rows(t), first = ox * s.sw - s.left;
    // As many tiles of this width as lie between the paddings, in one call.
    int64_t repeat = 0;
    if (strided != nullptr && first >= 0) {
      const int64_t reach = first + (columns - 1) * s.sw + s.kw;  // one beyond the tile's last pixel
      if (reach <= s.iw) repeat = (s.iw - reach) / (columns * s.sw) + 1;
      repeat = std::min(repeat, (t < split.extra ? split.extra : split.count) - t);
    }
    if (repeat > 0) {
      g.x = x + (iy + ky0 * s.dh) * g.x_row + first * g.x_pixel;
      run_tiles(strided[columns - 1], ox, columns, repeat);
      t += repeat;
    } else {
      fill_table(ox, columns);
      run_tiles(by_table[columns - 1], ox, columns, 1);
      ++t;
    }
  }
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
  rows.by_table = sliding ? table.sliding[s.kw == 5][s.sw == 2] : table.plain;
  rows.slides = sliding;
  // The strided form walks from row to row of the image.
  rows.strided = sliding && s.dh == 1 ? table.strided[s.kw == 5][s.sw == 2] : nullptr;
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
  g.x_row = s.iw * x_pixel;
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
