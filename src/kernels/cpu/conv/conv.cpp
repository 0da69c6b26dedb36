// One task of a convolution as a product: the table of input pixels that its rows read, then the sweep.
#include "kernels/cpu/conv/conv.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv/depthwise.hpp"

namespace peri::kernels::cpu {
namespace {

void sweep_taps(const ConvPlan& plan, Sweep& s) {
  for (int64_t t = 0; t < s.all_taps; t += plan.taps_at_once) {
    s.first_tap = t;
    s.taps = std::min(plan.taps_at_once, s.all_taps - t);
    s.b_row0 = t * s.k;
    s.accumulate = t != 0;
    s.last = t + s.taps == s.all_taps;
    run_sweep(s);
  }
}

// The kernel rows that meet the image at output row oy.
TapSpan rows_inside(const ConvShape& s, int64_t oy) {
  const int64_t iy = oy * s.sh - s.top;
  const int64_t begin = iy < 0 ? (-iy + s.dh - 1) / s.dh : 0;
  const int64_t end = iy >= s.ih ? 0 : (s.ih - iy + s.dh - 1) / s.dh;
  return {static_cast<int32_t>(std::min(begin, s.kh)), static_cast<int32_t>(std::min(end, s.kh))};
}

// The pixels one output pixel's taps read in kernel row `line`, `step` pointers apart.
inline void point_at_line(const ConvShape& s, const float* line, int64_t x_pixel, const float* zeros, int64_t ix,
                          const float** out, int64_t step) {
  const float* pixel = line + ix * x_pixel;
  if (ix >= 0 && ix + (s.kw - 1) * s.dw < s.iw) {
    for (int64_t kx = 0; kx < s.kw; ++kx, out += step, pixel += s.dw * x_pixel) *out = pixel;
    return;
  }
  for (int64_t kx = 0; kx < s.kw; ++kx, ix += s.dw, out += step) {
    *out = ix >= 0 && ix < s.iw ? line + ix * x_pixel : zeros;
  }
}

// Output pixels [first, first + rows) of all images: for each tile [tap][row] where the input pixel begins, or zeros.
void point_at_pixels(const ConvPlan& plan, const float* x, int64_t x_pixel, const float* zeros, int64_t first,
                     const TileSplit& tiles, const float** table, TapSpan* spans) {
  const ConvShape& s = plan.shape;
  const int64_t oh = s.oh(), ow = s.ow();
  int64_t ox = first % ow, oy = first / ow % oh, image = first / ow / oh;
  TapSpan inside = rows_inside(s, oy);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t rows = tiles.rows(t);
    spans[t] = plan.row_tiles
                   ? TapSpan{static_cast<int32_t>(inside.begin * s.kw), static_cast<int32_t>(inside.end * s.kw)}
                   : TapSpan{0, static_cast<int32_t>(s.kh * s.kw)};
    for (int64_t r = 0; r < rows; ++r) {
      const float** out = table + r;
      const float* line = x + (image * s.ih + oy * s.sh - s.top) * s.iw * x_pixel;
      for (int64_t ky = 0; ky < s.kh; ++ky, line += s.dh * s.iw * x_pixel, out += s.kw * rows) {
        if (ky >= inside.begin && ky < inside.end) {
          point_at_line(s, line, x_pixel, zeros, ox * s.sw - s.left, out, rows);
        } else {
          for (int64_t kx = 0; kx < s.kw; ++kx) out[kx * rows] = zeros;
        }
      }
      if (++ox == ow) {
        ox = 0;
        if (++oy == oh) {
          oy = 0;
          ++image;
        }
        inside = rows_inside(s, oy);
      }
    }
    table += rows * s.kh * s.kw;
  }
}

void run_pointers(const ConvPlan& plan, const ConvArgs& args, int64_t task, float* scratch) {
  const ConvShape& shape = plan.shape;
  const int64_t panel_block = task % plan.panel_blocks, row_block = task / plan.panel_blocks % plan.row_blocks;
  const int64_t group = task / plan.panel_blocks / plan.row_blocks;
  const int64_t ow = shape.ow(), lines = shape.n * shape.oh(), channels = shape.ic / shape.groups;
  const int64_t unit = plan.row_tiles ? ow : 1, units = plan.row_tiles ? lines : lines * ow;
  const int64_t unit0 = part_begin(units, plan.row_blocks, row_block);
  const int64_t unit_count = part_begin(units, plan.row_blocks, row_block + 1) - unit0;
  const int64_t row0 = unit0 * unit, rows = unit_count * unit;
  const float** table = reinterpret_cast<const float**>(scratch);
  Sweep s;
  s.table = &tile_table(plan.isa);
  s.tiles = split_rows(rows, plan.tile_rows, plan.row_tiles ? unit_count : 1);
  s.rows = table;
  s.all_taps = shape.kh * shape.kw;
  s.k = channels;
  s.panels = plan.panels;
  s.first_panel = part_begin(plan.panels.panels, plan.panel_blocks, panel_block);
  s.end_panel = part_begin(plan.panels.panels, plan.panel_blocks, panel_block + 1);
  s.b = args.w + group * plan.panels.packed_floats(s.all_taps * channels);
  s.b_panel_stride = plan.panels.panel_columns * s.all_taps * channels;
  s.ldc = args.y_pixel != 0 ? args.y_pixel : shape.oc;
  s.column0 = group * plan.panels.columns;
  s.c = args.y + row0 * s.ldc + s.column0;
  s.epilogue = &args.epilogue;
  s.row0 = row0;
  const int64_t x_pixel = args.x_pixel != 0 ? args.x_pixel : shape.ic;
  const float* x = args.x + group * channels;
  if (plan.pointwise) {
    for (int64_t r = 0; r < rows; ++r) table[r] = x + (row0 + r) * x_pixel;
    return sweep_taps(plan, s);
  }
  TapSpan* spans = reinterpret_cast<TapSpan*>(scratch + 2 * rows * s.all_taps);
  s.spans = spans;
  float* zeros = scratch + 2 * rows * s.all_taps + 2 * s.tiles.count;
  std::memset(zeros, 0, static_cast<size_t>(channels) * sizeof(float));
  point_at_pixels(plan, x, x_pixel, zeros, row0, s.tiles, table, spans);
  sweep_taps(plan, s);
}

// Input rows [iy0, iy0 + rows) of one image, columns [-left, columns - left), as [row][column][channel], padding zero.
void copy_padded(const ConvShape& s, const ConvArgs& args, int64_t image, int64_t iy0, int64_t rows, int64_t columns,
                 float* out) {
  const int64_t x_pixel = args.x_pixel != 0 ? args.x_pixel : s.ic;
  const int64_t begin = std::min(s.left, columns), end = std::clamp(s.iw + s.left, begin, columns);
  for (int64_t r = 0; r < rows; ++r, out += columns * s.ic) {
    const int64_t iy = iy0 + r;
    if (iy < 0 || iy >= s.ih) {
      std::fill(out, out + columns * s.ic, 0.0f);
      continue;
    }
    std::fill(out, out + begin * s.ic, 0.0f);
    std::fill(out + end * s.ic, out + columns * s.ic, 0.0f);
    float* to = out + begin * s.ic;
    const int64_t count = end - begin;
    if (s.x_form == XForm::kNchw) {
      for (int64_t c = 0; c < s.ic; ++c) {
        const float* from = args.x + ((image * s.ic + c) * s.ih + iy) * s.iw;
        for (int64_t i = 0; i < count; ++i) to[i * s.ic + c] = from[i];
      }
    } else {
      const float* from = args.x + (image * s.ih + iy) * s.iw * x_pixel;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t c = 0; c < s.ic; ++c) to[i * s.ic + c] = from[i * x_pixel + c];
      }
    }
  }
}

void run_rows(const ConvPlan& plan, const ConvArgs& args, int64_t task, float* scratch) {
  const ConvShape& shape = plan.shape;
  const int64_t oh = shape.oh(), ow = shape.ow();
  const int64_t image = task / plan.row_blocks, block = task % plan.row_blocks;
  const int64_t oy0 = part_begin(oh, plan.row_blocks, block), oy1 = part_begin(oh, plan.row_blocks, block + 1);
  const int64_t rows = (oy1 - oy0) * ow;
  const int64_t in_rows = (oy1 - oy0 - 1) * shape.sh + shape.dh * (shape.kh - 1) + 1;
  const int64_t in_columns = (ow - 1) * shape.sw + shape.kw;
  const float** table = reinterpret_cast<const float**>(scratch);
  float* input = scratch + 2 * rows * shape.kh;
  copy_padded(shape, args, image, oy0 * shape.sh - shape.top, in_rows, in_columns, input);
  Sweep s;
  s.table = &tile_table(plan.isa);
  s.tiles = split_rows(rows, plan.tile_rows);
  s.rows = table;
  s.all_taps = shape.kh;
  s.k = shape.kw * shape.ic;
  s.panels = plan.panels;
  s.end_panel = plan.panels.panels;
  s.b = args.w;
  s.b_panel_stride = plan.panels.panel_columns * s.all_taps * s.k;
  s.ldc = args.y_pixel != 0 ? args.y_pixel : shape.oc;
  s.row0 = (image * oh + oy0) * ow;
  s.c = args.y + s.row0 * s.ldc;
  s.epilogue = &args.epilogue;
  int64_t ox = 0;
  const float* line = input;
  for (int64_t t = 0; t < s.tiles.count; ++t) {
    const int64_t tile_rows = s.tiles.rows(t);
    for (int64_t r = 0; r < tile_rows; ++r) {
      for (int64_t ky = 0; ky < shape.kh; ++ky) {
        table[ky * tile_rows + r] = line + (ky * shape.dh * in_columns + ox * shape.sw) * shape.ic;
      }
      if (++ox == ow) {
        ox = 0;
        line += shape.sh * in_columns * shape.ic;
      }
    }
    table += tile_rows * shape.kh;
  }
  sweep_taps(plan, s);
}

}  // namespace

void run_task(const ConvPlan& plan, const ConvArgs& args, int64_t task, float* scratch) {
  switch (plan.kind) {
    case ConvKind::kPointers: return run_pointers(plan, args, task, scratch);
    case ConvKind::kRows: return run_rows(plan, args, task, scratch);
    case ConvKind::kDepthwise: return run_depthwise(plan, args, task, scratch);
  }
}

}  // namespace peri::kernels::cpu
