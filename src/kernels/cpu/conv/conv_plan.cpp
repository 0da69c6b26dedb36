// The form of a convolution (one of three), its task grid, and its packed weights.
#include <algorithm>
#include <cstdio>

#include "base/result.hpp"
#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/conv/depthwise.hpp"
#include "kernels/cpu/gemm/pack.hpp"

namespace peri::kernels::cpu {
namespace {

// Measured: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kBlockRows = 128, kMaxPointers = 8192;
constexpr double kBeginLines = 0.1;  // what a task does first, in lines: 2026-11-29_task_grids.md there
constexpr int64_t kMaxDepth = 1536;  // of a block of depth: 192 KiB of a panel of 32

ConvKind kind_of(const ConvShape& s) {
  if (s.groups > 1 && s.groups == s.ic && s.ic == s.oc) return ConvKind::kDepthwise;
  if (s.x_form == XForm::kNchw) return ConvKind::kRows;
  return s.groups == 1 && s.dw == 1 && s.ic < 8 && s.kw > 1 ? ConvKind::kRows : ConvKind::kPointers;
}

void plan_pointers(ConvPlan& plan, ConvCut cut, int threads) {
  const ConvShape& s = plan.shape;
  const int64_t taps = s.kh * s.kw, channels = s.ic / s.groups, ow = s.ow(), lines = s.n * s.oh();
  plan.pointwise = taps == 1 && s.sh == 1 && s.sw == 1 && s.top + s.left + s.bottom + s.right == 0;
  // Whole rows: 14 pixels a tile where that divides and the pixels do not collide in L1 (see tile_avx512.cpp).
  const bool collide = s.ic * s.sw * 4 % 4096 == 0;
  const int64_t most = !collide && plan.tile_rows >= 13 ? kMaxTileRows : plan.tile_rows;
  plan.row_tiles = s.kh > 1 && s.top + s.bottom > 0 && ow <= kBlockRows && split_rows(ow, most).base >= 4;
  if (plan.row_tiles) plan.tile_rows = most;
  int64_t block = std::clamp<int64_t>(kMaxPointers / taps, 1, cut.pixels > 0 ? cut.pixels : kBlockRows);
  if (plan.row_tiles) block = std::max<int64_t>(1, block / ow) * ow;
  const Grid grid = share_out({.rows = lines * ow,
                               .block_rows = block,
                               .depth = taps * channels,
                               .products = s.groups,
                               .group = plan.row_tiles ? ow : 1},
                              plan.panels, cut.pixels > 0 ? 1 : threads, {0, cut.panels});
  plan.row_blocks = grid.row_blocks;
  plan.panel_blocks = grid.panel_blocks;
  plan.taps_at_once = std::clamp<int64_t>(kMaxDepth / channels, 1, taps);
  plan.tasks = s.groups * plan.row_blocks * plan.panel_blocks;
  const int64_t rows = plan.row_tiles ? (lines + plan.row_blocks - 1) / plan.row_blocks * ow
                                      : (lines * ow + plan.row_blocks - 1) / plan.row_blocks;
  plan.scratch_floats = 2 * rows * taps + 2 * rows + channels;
}

void plan_rows(ConvPlan& plan, ConvCut cut, int threads) {
  const ConvShape& s = plan.shape;
  const int64_t oh = s.oh(), ow = s.ow();
  int64_t most = std::max<int64_t>(1, 6 * kBlockRows / ow);
  if (cut.lines > 0) most = std::min(most, cut.lines);
  // A task also copies the lines that its kernel reaches beyond its own.
  const auto time = [&](int64_t lines) {
    return time_of_tasks(static_cast<double>(lines) + kBeginLines, s.n * ((oh + lines - 1) / lines), threads);
  };
  int64_t lines = most;
  for (int64_t fewer = most - 1; fewer >= 1 && cut.lines == 0 && threads > 1; --fewer)
    if (time(fewer) < kFinerGain * time(lines)) lines = fewer;
  plan.row_blocks = (oh + lines - 1) / lines;
  plan.panel_blocks = 1;
  plan.taps_at_once = s.kh;
  plan.tasks = s.n * plan.row_blocks;
  const int64_t rows = (oh + plan.row_blocks - 1) / plan.row_blocks;
  const int64_t in_rows = (rows - 1) * s.sh + s.dh * (s.kh - 1) + 1, in_columns = (ow - 1) * s.sw + s.kw;
  plan.scratch_floats = 2 * rows * ow * s.kh + in_rows * in_columns * s.ic;
}

void plan_depthwise(ConvPlan& plan, ConvCut cut) {
  const ConvShape& s = plan.shape;
  plan.panel_blocks = std::clamp<int64_t>(s.oc / 128, 1, 8);
  plan.taps_at_once = s.kh * s.kw;
  const double flops = 2.0 * static_cast<double>(s.oh() * s.ow() * s.kh * s.kw) * static_cast<double>(s.oc);
  const double blocks = flops / 4e5 / static_cast<double>(plan.panel_blocks);
  plan.row_blocks = std::clamp<int64_t>(static_cast<int64_t>(blocks), 1, s.oh());
  if (cut.lines > 0) plan.row_blocks = (s.oh() + cut.lines - 1) / cut.lines;
  plan.tasks = s.n * plan.row_blocks * plan.panel_blocks;
  const int64_t pixels = std::max(s.kw * kMaxDepthwiseColumns, kMaxDepthwiseColumns * s.sw + s.kw);
  plan.scratch_floats = 2 * s.kh * pixels + s.oc;
}

// [tap][channel][column] of one group's panels from [column][channel][tap].
void pack_group(const float* w, int64_t taps, int64_t channels, const PanelSplit& panels, float* packed) {
  const int64_t depth = taps * channels;
  for (int64_t p = 0; p < panels.panels; ++p) {
    const int64_t column = p * panels.panel_columns, width = panels.width(p), wanted = panels.wanted(p);
    float* out = packed + column * depth;
    if (taps == 1) {
      pack_panel(w + column * depth, depth, true, depth, wanted, width, out);
      continue;
    }
    for (int64_t j = 0; j < width; ++j) {
      const float* from = w + (column + j) * depth;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) out[(t * channels + c) * width + j] = j < wanted ? *from++ : 0;
      }
    }
  }
}

PanelSplit group_panels(const ConvShape& s, Isa isa) { return split_columns(s.oc / s.groups, tile_table(isa).lanes); }

}  // namespace

std::string refuse_conv(const ConvShape& s) {
  if (s.n < 1 || s.ic < 1 || s.oc < 1 || s.ih < 1 || s.iw < 1 || s.kh < 1 || s.kw < 1) return "an empty dimension";
  if (s.sh < 1 || s.sw < 1 || s.dh < 1 || s.dw < 1) return "a stride or dilation below 1";
  if (s.top < 0 || s.left < 0 || s.bottom < 0 || s.right < 0) return "negative padding";
  if (s.groups < 1 || s.ic % s.groups != 0 || s.oc % s.groups != 0) return "channels do not divide into the groups";
  if (s.ih + s.top + s.bottom <= s.dh * (s.kh - 1) || s.iw + s.left + s.right <= s.dw * (s.kw - 1)) {
    return "the kernel is larger than the padded image";
  }
  if (s.x_form == XForm::kNchw && (s.groups != 1 || s.dw != 1 || s.ic > 16)) {
    return "an NCHW input needs one group, no dilation along the width and at most 16 channels";
  }
  return {};
}

ConvPlan plan_conv(const ConvShape& shape, Isa isa, ConvCut cut, int threads) {
  PERI_CHECK(refuse_conv(shape).empty(), refuse_conv(shape));
  const TileTable& table = tile_table(isa);
  ConvPlan plan;
  plan.shape = shape;
  plan.isa = isa;
  plan.kind = kind_of(shape);
  plan.tile_rows = table.max_rows;
  plan.panels = group_panels(shape, isa);
  switch (plan.kind) {
    case ConvKind::kPointers: plan_pointers(plan, cut, threads); break;
    case ConvKind::kRows: plan_rows(plan, cut, threads); break;
    case ConvKind::kDepthwise: plan_depthwise(plan, cut); break;
  }
  return plan;
}

std::string plan_text(const ConvPlan& p) {
  const ConvShape& s = p.shape;
  const char* kinds[] = {"pointers", "rows", "depthwise"};
  const auto number = [](int64_t v) { return std::to_string(v); };
  return std::string("conv ") + std::string(isa_name(p.isa)) + " " + kinds[static_cast<int>(p.kind)] +
         " x=" + (s.x_form == XForm::kNchw ? "nchw " : "nhwc ") + number(s.n) + "x" + number(s.ih) + "x" +
         number(s.iw) + "x" + number(s.ic) + " w=" + number(s.oc) + "x" + number(s.kh) + "x" + number(s.kw) +
         " strides=" + number(s.sh) + "," + number(s.sw) + " dilations=" + number(s.dh) + "," + number(s.dw) +
         " pads=" + number(s.top) + "," + number(s.left) + "," + number(s.bottom) + "," + number(s.right) +
         " groups=" + number(s.groups) + " blocks rows=" + number(p.row_blocks) + " panels=" + number(p.panel_blocks) +
         " taps=" + number(p.taps_at_once) + " tasks=" + number(p.tasks);
}

int64_t packed_conv_floats(const ConvShape& s, Isa isa) {
  const int64_t taps = s.kh * s.kw;
  if (kind_of(s) == ConvKind::kDepthwise) return taps * s.oc;
  return s.groups * group_panels(s, isa).packed_floats(taps * (s.ic / s.groups));
}

void pack_conv_weights(const float* w, const ConvShape& s, Isa isa, float* packed) {
  const int64_t taps = s.kh * s.kw, channels = s.ic / s.groups;
  if (kind_of(s) == ConvKind::kDepthwise) {
    for (int64_t c = 0; c < s.oc; ++c) {
      for (int64_t t = 0; t < taps; ++t) packed[t * s.oc + c] = w[c * taps + t];
    }
    return;
  }
  const PanelSplit panels = group_panels(s, isa);
  for (int64_t g = 0; g < s.groups; ++g) {
    pack_group(w + g * panels.columns * taps * channels, taps, channels, panels,
               packed + g * panels.packed_floats(taps * channels));
  }
}

}  // namespace peri::kernels::cpu
