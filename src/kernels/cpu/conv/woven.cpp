// The phases of a thin transposed convolution: their taps and packed weights, and one task.
#include "kernels/cpu/conv/woven.hpp"

#include <algorithm>
#include <cstring>

#include "base/result.hpp"
#include "kernels/cpu/conv/transposed.hpp"

namespace peri::kernels::cpu::conv {
namespace {

// Of a group. With more of both, vectors along the channels are faster (conv_transpose_f32).
constexpr int64_t kMaxChannels = 128, kMaxProducts = 1024;
constexpr int64_t kMaxTaps = 1 << 16;
// Measured: benchmarks/results/2026-12-01_constants_woven.md.
constexpr int64_t kScratchFloats = 64 * 1024;  // what a task keeps: a part of L2
constexpr int64_t kMaxScratch = 1 << 20;       // where the fewest columns of a row need more
constexpr int64_t kMinColumns = 128;
constexpr int64_t kWantedTasks = 16;

int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Along one axis: output o of phase (o + cut) mod stride reads element o / stride + shift(tap) through each of its
// taps.
struct Axis {
  int64_t taps, stride, dilation, cut;
  int64_t residue(int64_t tap) const { return tap * dilation % stride; }
  int64_t shift(int64_t tap) const {
    const int64_t first = (residue(tap) + stride - cut % stride) % stride;  // output of the phase
    return (first + cut - tap * dilation) / stride;
  }
  int64_t low() const {
    int64_t least = shift(0);
    for (int64_t t = 1; t < taps; ++t) least = std::min(least, shift(t));
    return least;
  }
  int64_t max_spread() const { return (taps - 1) * dilation / stride + 1; }  // for any cut
  int64_t spread() const {
    int64_t most = shift(0);
    for (int64_t t = 1; t < taps; ++t) most = std::max(most, shift(t));
    return most - low();
  }
};
Axis rows_of(const TransposedShape& s) { return {s.kh, s.sh, s.dh, s.top}; }
Axis columns_of(const TransposedShape& s) { return {s.kw, s.sw, s.dw, s.left}; }

// Calls f(channel, ky, kx) for the taps of a phase.
template <class F>
void each_tap(const TransposedShape& s, int64_t ry, int64_t rx, F f) {
  const Axis rows = rows_of(s), columns = columns_of(s);
  for (int64_t c = 0; c < s.ic / s.groups; ++c)
    for (int64_t ky = 0; ky < s.kh; ++ky) {
      if (rows.residue(ky) != ry) continue;
      for (int64_t kx = 0; kx < s.kw; ++kx)
        if (columns.residue(kx) == rx) f(c, ky, kx);
    }
}

// The image's row, or zeros where `x` is null, from column `low` on.
void keep_row(const WovenPlan& p, const float* x, int64_t low, float* to) {
  const int64_t begin = x ? std::clamp<int64_t>(-low, 0, p.pitch) : p.pitch,
                end = x ? std::clamp(p.shape.iw - low, begin, p.pitch) : p.pitch;
  std::fill_n(to, begin, 0.0F);
  if (end > begin) std::memcpy(to + begin, x + begin + low, static_cast<size_t>(end - begin) * sizeof(float));
  std::fill_n(to + end, p.pitch - end, 0.0F);
}

// What a task reads, from the group's first plane on.
void keep_planes(const WovenPlan& p, const float* x, int64_t row, int64_t count, int64_t column, float* to) {
  const TransposedShape& s = p.shape;
  const int64_t needed = count + p.kept_rows - p.rows;
  for (int64_t c = 0; c < p.channels(); ++c, to += p.kept_rows * p.pitch)
    for (int64_t k = 0; k < needed; ++k) {
      const int64_t iy = row + p.low_row + k;
      keep_row(p, iy >= 0 && iy < s.ih ? x + (c * s.ih + iy) * s.iw : nullptr, column + p.low_column, to + k * p.pitch);
    }
}

}  // namespace

std::string refuse_woven(const TransposedShape& s) {
  if (std::string why = refuse_transposed(s); !why.empty()) return why;
  if (s.ic / s.groups > kMaxChannels) return "more than " + std::to_string(kMaxChannels) + " channels a group";
  if (s.ic / s.groups * (s.oc / s.groups) > kMaxProducts)
    return "more than " + std::to_string(kMaxProducts) + " products of channels in a group";
  if (s.ic / s.groups * s.kh * s.kw > kMaxTaps) return "more than " + std::to_string(kMaxTaps) + " taps";
  const int64_t rows = s.ic / s.groups * (1 + rows_of(s).max_spread()) + kThinOuts * s.sw;
  if ((kMinColumns + columns_of(s).max_spread()) * rows > kMaxScratch) return "a window too wide";
  return {};
}

namespace {
void cut_tasks(int64_t row_spread, int64_t column_spread, WovenPlan* p) {
  const TransposedShape& s = p->shape;
  const int64_t all_rows = up(s.oh(), s.sh), all_columns = up(s.ow(), s.sw), planes = s.n * s.groups;
  const int64_t sums = std::min<int64_t>(kThinOuts, p->outs()) * std::min(s.sw, s.ow());
  const auto floats = [&] {
    const int64_t kept = p->channels() * (p->rows + row_spread) + sums * p->rows;
    return kept * (p->columns + column_spread) + kThinSlack;
  };
  p->rows = all_rows;
  p->columns = all_columns;
  // Rows at the edge of a block are kept twice: rather fewer columns than few rows.
  while (floats() > kScratchFloats && (p->rows > 1 || p->columns > kMinColumns)) {
    if (p->columns > kMinColumns && p->rows <= 2 * (1 + row_spread))
      p->columns = std::max(kMinColumns, (p->columns + 1) / 2);
    else
      p->rows = (p->rows + 1) / 2;
  }
  const auto few = [&] { return planes * up(all_rows, p->rows) * up(all_columns, p->columns) < kWantedTasks; };
  while (p->rows > 4 * (1 + row_spread) && few()) p->rows = (p->rows + 1) / 2;
  while (p->columns > kMinColumns && few()) p->columns = std::max(kMinColumns, (p->columns + 1) / 2);
  p->row_blocks = up(all_rows, p->rows);
  p->column_blocks = up(all_columns, p->columns);
  p->kept_rows = p->rows + row_spread;
  p->pitch = p->columns + column_spread;
  p->scratch_floats = floats();
  p->tasks = planes * p->row_blocks * p->column_blocks;
}
}  // namespace

WovenPlan plan_woven(const TransposedShape& s, Isa isa) {
  PERI_CHECK(refuse_woven(s).empty(), refuse_woven(s));
  WovenPlan p;
  p.shape = s;
  p.isa = isa;
  const Axis rows = rows_of(s), columns = columns_of(s);
  p.low_row = rows.low();
  p.low_column = columns.low();
  cut_tasks(rows.spread(), columns.spread(), &p);
  for (int64_t ry = 0; ry < s.sh; ++ry)
    for (int64_t rx = 0; rx < s.sw; ++rx) {
      const int64_t first = std::ssize(p.at);
      each_tap(s, ry, rx, [&](int64_t c, int64_t ky, int64_t kx) {
        p.at.push_back((c * p.kept_rows + rows.shift(ky) - p.low_row) * p.pitch + columns.shift(kx) - p.low_column);
      });
      p.phases.push_back({first, std::ssize(p.at) - first});
    }
  return p;
}

void pack_woven_weights(const float* w, const TransposedShape& s, float* packed) {
  const int64_t channels = s.ic / s.groups, outs = s.oc / s.groups;
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t ry = 0; ry < s.sh; ++ry)
      for (int64_t rx = 0; rx < s.sw; ++rx)
        for (int64_t o = 0; o < outs; ++o)
          each_tap(s, ry, rx, [&](int64_t c, int64_t ky, int64_t kx) {
            *packed++ = w[(((g * channels + c) * outs + o) * s.kh + ky) * s.kw + kx];
          });
}

void run_task(const WovenPlan& p, const WovenArgs& args, int64_t task, float* scratch) {
  const TransposedShape& s = p.shape;
  const auto thin_row = p.isa == Isa::kAvx512 ? avx512::thin_row : avx2::thin_row;
  const auto weave = p.isa == Isa::kAvx512 ? avx512::weave : avx2::weave;
  const int64_t image_group = task / p.column_blocks / p.row_blocks, group = image_group % s.groups;
  const int64_t oh = s.oh(), ow = s.ow(), row = task / p.column_blocks % p.row_blocks * p.rows,
                end = std::min(row + p.rows, up(oh, s.sh)), column = task % p.column_blocks * p.columns,
                width = std::min(p.columns * s.sw, ow - column * s.sw);
  keep_planes(p, args.x + image_group * p.channels() * s.ih * s.iw, row, end - row, column, scratch);
  const int64_t phases = std::min(s.sw, ow), length = p.rows * p.pitch;
  float* const sums = scratch + p.kept_floats();
  ThinRow r;
  r.x = scratch;
  r.y_step = phases * length;
  for (int64_t o = 0; o < p.outs(); o += r.outs) {
    r.outs = static_cast<int>(std::min<int64_t>(kThinOuts, p.outs() - o));
    r.bias = args.bias ? args.bias + group * p.outs() + o : nullptr;
    for (int64_t oy = 0; oy < s.sh; ++oy) {
      const int64_t count = std::min(end, up(oh - oy, s.sh)) - row;
      if (count <= 0) continue;
      r.n = (count - 1) * p.pitch + p.columns;
      for (int64_t ox = 0; ox < phases; ++ox) {
        const WovenPlan::Phase& phase =
            p.phases[static_cast<size_t>((oy + s.top) % s.sh * s.sw + (ox + s.left) % s.sw)];
        r.taps = phase.taps;
        r.at = p.at.data() + phase.first;
        r.w = args.w + (group * std::ssize(p.at) + phase.first) * p.outs() + o * phase.taps;
        r.y = sums + ox * length;
        thin_row(r);
      }
      for (int k = 0; k < r.outs; ++k) {
        float* const y = args.y + ((image_group * p.outs() + o + k) * oh + row * s.sh + oy) * ow + column * s.sw;
        for (int64_t q = 0; q < count; ++q)
          weave({sums + k * r.y_step + q * p.pitch, length, s.sw, y + q * s.sh * ow, width});
      }
    }
  }
}

}  // namespace peri::kernels::cpu::conv
