// The phases of a transposed convolution: the taps that contribute to each output, their packed weights, and one task.
#include "kernels/cpu/conv/transposed.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"

namespace peri::kernels::cpu {
namespace {

// Measured: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kBlockPixels = 256;

// Along one axis: output o uses tap t where (o + cut - t * dilation) is a multiple of the stride; so a tap belongs to
// the residue t * dilation mod stride, an output to (o + cut) mod stride.
struct Axis {
  int64_t taps, stride, dilation;
  int64_t residue(int64_t tap) const { return tap * dilation % stride; }
  int64_t count(int64_t residue_wanted) const {
    int64_t n = 0;
    for (int64_t t = 0; t < taps; ++t) n += residue(t) == residue_wanted ? 1 : 0;
    return n;
  }
};

Axis rows_of(const TransposedShape& s) { return {s.kh, s.sh, s.dh}; }
Axis columns_of(const TransposedShape& s) { return {s.kw, s.sw, s.dw}; }

PanelSplit group_panels(const TransposedShape& s, Isa isa) {
  return split_columns(s.oc / s.groups, tile_table(isa).lanes);
}

// Floats of one group's weights before the phase (ry, rx), phases in row-major order.
int64_t phase_offset(const TransposedShape& s, const PanelSplit& panels, int64_t ry, int64_t rx) {
  const Axis rows = rows_of(s), columns = columns_of(s);
  int64_t taps = 0;
  for (int64_t r = 0; r < ry; ++r) taps += rows.count(r) * s.kw;
  for (int64_t r = 0; r < rx; ++r) taps += rows.count(ry) * columns.count(r);
  return panels.packed_floats(taps * (s.ic / s.groups));
}

// The epilogue of every step-th pixel from `first` on, as if they were all.
Epilogue every(const Epilogue& e, int64_t first, int64_t step) {
  Epilogue out = e;
  for (int i = 0; i < out.count; ++i) {
    PostOp& op = out.ops[i];
    if (op.kind != PostKind::kAdd && op.kind != PostKind::kMul) continue;
    op.data += first * op.ld;
    op.ld *= step;
  }
  return out;
}

struct Phase {
  int64_t image, oy, ox, pixels;  // output row, first column, how many columns a stride apart
};

// For each tile [tap][row]: the input pixel of each tap of the phase, or zeros.
void point_at_pixels(const TransposedShape& s, const Phase& p, const float* x, int64_t x_pixel, const float* zeros,
                     const TileSplit& tiles, const float** table) {
  const Axis rows = rows_of(s), columns = columns_of(s);
  const int64_t ry = (p.oy + s.top) % s.sh, rx = (p.ox + s.left) % s.sw;
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t tile_rows = tiles.rows(t), begin = tiles.begin(t);
    for (int64_t ky = 0; ky < s.kh; ++ky) {
      if (rows.residue(ky) != ry) continue;
      const int64_t over = p.oy + s.top - ky * s.dh, iy = over / s.sh;
      const bool inside = over >= 0 && iy < s.ih;
      const float* line = x + (p.image * s.ih + (inside ? iy : 0)) * s.iw * x_pixel;
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        if (columns.residue(kx) != rx) continue;
        for (int64_t r = 0; r < tile_rows; ++r) {
          const int64_t along = p.ox + (begin + r) * s.sw + s.left - kx * s.dw, ix = along / s.sw;
          *table++ = inside && along >= 0 && ix < s.iw ? line + ix * x_pixel : zeros;
        }
      }
    }
  }
}

}  // namespace

std::string refuse_transposed(const TransposedShape& s, const Epilogue& epilogue) {
  if (s.n < 1 || s.ic < 1 || s.oc < 1 || s.ih < 1 || s.iw < 1 || s.kh < 1 || s.kw < 1) return "an empty dimension";
  if (s.sh < 1 || s.sw < 1 || s.dh < 1 || s.dw < 1) return "a stride or dilation below 1";
  if (s.top < 0 || s.left < 0 || s.bottom < 0 || s.right < 0 || s.extra_h < 0 || s.extra_w < 0)
    return "negative padding";
  if (s.groups < 1 || s.ic % s.groups != 0 || s.oc % s.groups != 0) return "channels do not divide into the groups";
  if (s.oh() < 1 || s.ow() < 1) return "an empty result";
  for (int i = 0; i < epilogue.count; ++i) {
    const PostKind kind = epilogue.ops[i].kind;
    if (kind == PostKind::kRowAdd || kind == PostKind::kRowMul) return "an epilogue step by row";
  }
  return {};
}

TransposedPlan plan_transposed(const TransposedShape& s, Isa isa) {
  PERI_CHECK(refuse_transposed(s).empty(), refuse_transposed(s));
  TransposedPlan plan;
  plan.shape = s;
  plan.isa = isa;
  plan.panels = group_panels(s, isa);
  const int64_t lines = s.n * s.oh(), at_once = std::max<int64_t>(1, kBlockPixels / s.ow());
  plan.row_blocks = (lines + at_once - 1) / at_once;
  // Few rows: share out the panels too.
  plan.panel_blocks = std::clamp<int64_t>(16 / (plan.row_blocks * s.groups), 1, plan.panels.panels);
  plan.tasks = plan.row_blocks * s.groups * plan.panel_blocks;
  int64_t most = 0;
  for (int64_t ry = 0; ry < s.sh; ++ry) {
    for (int64_t rx = 0; rx < s.sw; ++rx) most = std::max(most, rows_of(s).count(ry) * columns_of(s).count(rx));
  }
  plan.scratch_floats = 2 * most * ((s.ow() + s.sw - 1) / s.sw) + s.ic / s.groups + 1;
  return plan;
}

int64_t packed_transposed_floats(const TransposedShape& s, Isa isa) {
  return s.groups * group_panels(s, isa).packed_floats(s.kh * s.kw * (s.ic / s.groups));
}

void pack_transposed_weights(const float* w, const TransposedShape& s, Isa isa, float* packed) {
  const PanelSplit panels = group_panels(s, isa);
  const Axis rows = rows_of(s), columns = columns_of(s);
  const int64_t channels = s.ic / s.groups, taps_all = s.kh * s.kw;
  for (int64_t g = 0; g < s.groups; ++g) {
    float* group = packed + g * panels.packed_floats(taps_all * channels);
    for (int64_t ry = 0; ry < s.sh; ++ry) {
      for (int64_t rx = 0; rx < s.sw; ++rx) {
        float* out = group + phase_offset(s, panels, ry, rx);
        for (int64_t p = 0; p < panels.panels; ++p) {
          for (int64_t tap = 0; tap < taps_all; ++tap) {
            if (rows.residue(tap / s.kw) != ry || columns.residue(tap % s.kw) != rx) continue;
            for (int64_t c = 0; c < channels; ++c) {
              const float* from = w + ((g * channels + c) * panels.columns + p * panels.panel_columns) * taps_all + tap;
              for (int64_t j = 0; j < panels.width(p); ++j) *out++ = j < panels.wanted(p) ? from[j * taps_all] : 0;
            }
          }
        }
      }
    }
  }
}

void run_task(const TransposedPlan& plan, const ConvArgs& args, int64_t task, float* scratch) {
  const TransposedShape& shape = plan.shape;
  const int64_t panel_block = task % plan.panel_blocks, group = task / plan.panel_blocks % shape.groups;
  const int64_t block = task / plan.panel_blocks / shape.groups;
  const int64_t oh = shape.oh(), ow = shape.ow(), lines = shape.n * oh, channels = shape.ic / shape.groups;
  const int64_t x_pixel = args.x_pixel != 0 ? args.x_pixel : shape.ic;
  const int64_t y_pixel = args.y_pixel != 0 ? args.y_pixel : shape.oc;
  float* zeros = scratch;
  std::memset(zeros, 0, static_cast<size_t>(channels) * sizeof(float));
  const float** table = reinterpret_cast<const float**>(scratch + (channels + 1) / 2 * 2);
  const Axis rows = rows_of(shape), columns = columns_of(shape);
  const float* weights = args.w + group * plan.panels.packed_floats(shape.kh * shape.kw * channels);
  Sweep s;
  s.table = &tile_table(plan.isa);
  s.rows = table;
  s.k = channels;
  s.panels = plan.panels;
  s.first_panel = part_begin(plan.panels.panels, plan.panel_blocks, panel_block);
  s.end_panel = part_begin(plan.panels.panels, plan.panel_blocks, panel_block + 1);
  s.ldc = shape.sw * y_pixel;
  s.column0 = group * plan.panels.columns;
  const int64_t end = part_begin(lines, plan.row_blocks, block + 1);
  for (int64_t line = part_begin(lines, plan.row_blocks, block); line < end; ++line) {
    for (int64_t ox = 0; ox < std::min(shape.sw, ow); ++ox) {
      const Phase phase{line / oh, line % oh, ox, (ow - ox + shape.sw - 1) / shape.sw};
      const int64_t ry = (phase.oy + shape.top) % shape.sh, rx = (ox + shape.left) % shape.sw;
      s.tiles = split_rows(phase.pixels, s.table->max_rows);
      s.all_taps = s.taps = rows.count(ry) * columns.count(rx);
      s.b = weights + phase_offset(shape, plan.panels, ry, rx);
      s.b_panel_stride = plan.panels.panel_columns * s.all_taps * channels;
      s.c = args.y + (line * ow + ox) * y_pixel + s.column0;
      const Epilogue epilogue = every(args.epilogue, line * ow + ox, shape.sw);
      s.epilogue = &epilogue;
      point_at_pixels(shape, phase, args.x + group * channels, x_pixel, zeros, s.tiles, table);
      run_sweep(s);
    }
  }
}

}  // namespace peri::kernels::cpu
