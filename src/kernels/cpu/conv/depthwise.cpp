// One task of a depthwise convolution: some rows of one image, some channels, row by row in tiles of up to eight
// columns.
#include "kernels/cpu/conv/depthwise.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"

namespace peri::kernels::cpu {
namespace {

struct Place {
  const float* x = nullptr;  // the image's first pixel, first channel of the task
  int64_t x_pixel = 0;
  const float* zeros = nullptr;
};

// The pixels a tile of `columns` outputs from (oy, ox) reads, in the sliding or the plain form.
void point_at_pixels(const ConvShape& s, const Place& from, bool sliding, int64_t oy, int64_t ox, int64_t columns,
                     const float** table) {
  for (int64_t ky = 0; ky < s.kh; ++ky) {
    const int64_t iy = oy * s.sh - s.top + ky * s.dh;
    const bool inside = iy >= 0 && iy < s.ih;
    const float* line = from.x + (inside ? iy : 0) * s.iw * from.x_pixel;
    const auto pixel = [&](int64_t ix) {
      return inside && ix >= 0 && ix < s.iw ? line + ix * from.x_pixel : from.zeros;
    };
    if (sliding) {
      const int64_t first = ox * s.sw - s.left, count = (columns - 1) * s.sw + s.kw;
      for (int64_t i = 0; i < count; ++i) *table++ = pixel(first + i);
    } else {
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        for (int64_t o = 0; o < columns; ++o) *table++ = pixel((ox + o) * s.sw - s.left + kx * s.dw);
      }
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
  const int64_t y_pixel = args.y_pixel != 0 ? args.y_pixel : s.oc;
  Place from;
  from.x_pixel = args.x_pixel != 0 ? args.x_pixel : s.ic;
  from.x = args.x + image * s.ih * s.iw * from.x_pixel + c0;
  const float** pixels = reinterpret_cast<const float**>(scratch);
  float* zeros = scratch + 2 * s.kh * std::max(s.kw * kMaxDepthwiseColumns, kMaxDepthwiseColumns * s.sw + s.kw);
  std::memset(zeros, 0, static_cast<size_t>(c1 - c0) * sizeof(float));
  from.zeros = zeros;
  const DepthwiseTable& table = depthwise_table(plan.isa);
  const bool sliding = s.dw == 1 && (s.kw == 3 || s.kw == 5) && (s.sw == 1 || s.sw == 2);
  const DepthwiseFn* tiles = sliding ? table.sliding[s.kw == 5][s.sw == 2] : table.plain;
  const RegisterStage stage = register_stage(args.epilogue);
  const int rest = args.epilogue.count - stage.consumed;
  const TileSplit split = split_rows(ow, kMaxDepthwiseColumns);
  const int64_t oy1 = part_begin(oh, plan.row_blocks, block + 1);
  for (int64_t oy = part_begin(oh, plan.row_blocks, block); oy < oy1; ++oy) {
    for (int64_t t = 0; t < split.count; ++t) {
      const int64_t ox = split.begin(t), columns = split.rows(t), row = (image * oh + oy) * ow + ox;
      point_at_pixels(s, from, sliding, oy, ox, columns, pixels);
      DepthwiseTile g;
      g.pixels = pixels;
      g.kh = s.kh;
      g.kw = s.kw;
      g.w = args.w + c0;
      g.w_step = s.oc;
      g.y = args.y + row * y_pixel + c0;
      g.y_pixel = y_pixel;
      g.channels = c1 - c0;
      g.stage = stage;
      if (stage.bias != nullptr) g.stage.bias = stage.bias + c0;
      if (stage.add != nullptr) g.stage.add = stage.add + row * stage.add_ld + c0;
      tiles[columns - 1](g);
      if (rest > 0) {
        const PostOp* ops = args.epilogue.ops + stage.consumed;
        tile_table(plan.isa).post(g.y, y_pixel, columns, g.channels, ops, rest, row, c0);
      }
    }
  }
}

}  // namespace peri::kernels::cpu
