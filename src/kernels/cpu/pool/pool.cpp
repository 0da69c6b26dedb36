// Plans and tasks of pooling: NHWC reduces the taps of a pixel over vectors of channels; NCHW reduces rows, then along
// the reduced row.
#include "kernels/cpu/pool/pool.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "kernels/cpu/pool/loops.hpp"

namespace peri::kernels::cpu::pool {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;
// Number of result rows whose lines are reduced before the first is read again: a load that overlaps recent stores of
// other vectors stalls.
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kLines = 8;

const Loops& loops(Isa isa) { return isa == Isa::kAvx512 ? avx512::kLoops : avx2::kLoops; }

bool valid(const Extent& e) {
  for (int64_t v : {e.in, e.out, e.pad_begin, e.pad_end}) {
    if (v < 0 || v > kMaxExtent) return false;
  }
  for (int64_t v : {e.kernel, e.stride, e.dilation}) {
    if (v < 1 || v > (1 << 20)) return false;
  }
  return e.out * e.stride <= (int64_t{1} << 40);
}

int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }
Window window_of(const Extent& e, int64_t o) {
  const int64_t begin = o * e.stride - e.pad_begin;
  const int64_t skip = ceil_div(-begin, e.dilation);
  const auto below = [&](int64_t limit) { return std::min(e.kernel, ceil_div(limit - begin, e.dilation)); };
  return {begin + skip * e.dilation, std::max<int64_t>(0, below(e.in) - skip), below(e.in + e.pad_end)};
}

// The maximum of a window that lies completely in the padding, as in the reference and ONNX Runtime: finite, so that a
// later product with zero is zero.
constexpr float kEmptyMax = std::numeric_limits<float>::lowest();

float factor_of(const Shape& s, const Window& d, const Window& h, const Window& w) {
  if (s.kind == Kind::kMax) return 1;
  const int64_t count = s.count_include_pad ? d.padded * h.padded * w.padded : d.taps * h.taps * w.taps;
  return 1 / static_cast<float>(std::max<int64_t>(count, 1));
}

void pool_nhwc_row(const Plan& plan, const Args& args, int64_t unit) {
  const Shape& s = plan.shape;
  const int64_t image = unit / s.h.out, row = s.w.in * s.channels;
  const float* x = args.x + image * s.h.in * row;
  float* y = args.y + unit * s.w.out * s.channels;
  const Window h = window_of(s.h, unit % s.h.out);
  const float nothing = s.kind == Kind::kMax ? kEmptyMax : 0.0f;
  for (int64_t o = 0; o < s.w.out; ++o, y += s.channels) {
    const Window w = window_of(s.w, o);
    if (h.taps == 0 || w.taps == 0) {
      std::fill(y, y + s.channels, nothing);
      continue;
    }
    loops(plan.isa).join(s.kind == Kind::kMax, x + h.first * row + w.first * s.channels, h.taps, s.h.dilation * row,
                         w.taps, s.w.dilation * s.channels, factor_of(s, {0, 1, 1}, h, w), y, s.channels);
  }
}

// A row of outputs from `line`, the join of the rows above each other; empty: there were none.
void join_along(const Plan& plan, const Window& d, const Window& h, const float* line, float* y) {
  const Shape& s = plan.shape;
  const bool maximum = s.kind == Kind::kMax, empty = d.taps == 0 || h.taps == 0;
  const auto one = [&](int64_t o) {
    const Window& w = plan.columns[static_cast<size_t>(o)];
    if (empty || w.taps == 0) {
      y[o] = maximum ? kEmptyMax : 0.0f;
      return;
    }
    const float* tap = line + w.first;
    float v = maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
    for (int64_t k = 0; k < w.taps; ++k, tap += s.w.dilation) {
      if (maximum) {
        v = *tap > v || *tap != *tap ? *tap : v;
      } else {
        v += *tap;
      }
    }
    y[o] = maximum ? v : v * factor_of(s, d, h, w);
  };
  if (plan.padded && !empty && (maximum || (d.taps == s.d.kernel && h.taps == s.h.kernel))) {
    loops(plan.isa).join_strided(maximum, line - plan.before, s.w.stride, s.w.kernel, s.w.dilation, 1.0f, y, s.w.out);
    if (!maximum) loops(plan.isa).scale(plan.factors.data(), y, s.w.out);
    return;
  }
  const int64_t begin = empty ? s.w.out : plan.whole_begin, end = empty ? s.w.out : plan.whole_end;
  for (int64_t o = 0; o < begin; ++o) one(o);
  if (begin < end) {
    const Window& w = plan.columns[static_cast<size_t>(begin)];
    loops(plan.isa).join_strided(maximum, line + w.first, s.w.stride, s.w.kernel, s.w.dilation, factor_of(s, d, h, w),
                                 y + begin, end - begin);
  }
  for (int64_t o = end; o < s.w.out; ++o) one(o);
}

void pool_nchw_plane(const Plan& plan, const Args& args, int64_t plane, float* lines) {
  const Shape& s = plan.shape;
  const int64_t image = s.h.in * s.w.in, count = std::ssize(plan.rows);
  const float* x = args.x + plane * s.d.in * image;
  float* y = args.y + plane * s.d.out * s.h.out * s.w.out;
  for (const Window& d : plan.depths) {
    for (int64_t first = 0; first < count; first += kLines) {
      const std::span<const Window> rows(plan.rows.data() + first,
                                         static_cast<size_t>(std::min(kLines, count - first)));
      float* line = lines;
      for (const Window& h : rows) {
        if (d.taps > 0 && h.taps > 0)
          loops(plan.isa).join(s.kind == Kind::kMax, x + d.first * image + h.first * s.w.in, d.taps,
                               s.d.dilation * image, h.taps, s.h.dilation * s.w.in, 1.0f, line, s.w.in);
        line += plan.line;
      }
      line = lines;
      for (const Window& h : rows) {
        join_along(plan, d, h, line, y);
        line += plan.line;
        y += s.w.out;
      }
    }
  }
}

}  // namespace

Result<Plan> make_plan(const Shape& s, Isa isa) {
  Plan plan{.shape = s, .isa = isa};
  if (s.batch < 0 || s.channels < 0 || s.batch > kMaxExtent || s.channels > kMaxExtent || !valid(s.h) || !valid(s.w) ||
      !valid(s.d))
    return invalid("pool: a dim, kernel, stride, dilation or pad is out of range");
  int64_t in = 1, out = 1;
  for (int64_t d : {s.batch, s.channels, s.d.in, s.h.in, s.w.in}) {
    if (__builtin_mul_overflow(in, std::max<int64_t>(d, 1), &in) || in > (int64_t{1} << 46))
      return invalid("pool: too large");
  }
  for (int64_t d : {s.batch, s.channels, s.d.out, s.h.out, s.w.out}) {
    if (__builtin_mul_overflow(out, d, &out) || out > (int64_t{1} << 46)) return invalid("pool: too large");
  }
  if (out == 0) return plan;
  const bool nhwc = s.layout == Layout::kNhwc;
  if (nhwc && (s.d.in != 1 || s.d.out != 1)) return unsupported("pool: three spatial dims stand behind the channels");
  plan.units = nhwc ? s.batch * s.h.out : s.batch * s.channels;
  plan.tasks = std::min(plan.units, std::clamp<int64_t>((in + out) / 32768, 1, 512));
  if (nhwc) return plan;
  for (int64_t o = 0; o < s.w.out; ++o) plan.columns.push_back(window_of(s.w, o));
  for (int64_t o = 0; o < s.h.out; ++o) plan.rows.push_back(window_of(s.h, o));
  for (int64_t o = 0; o < s.d.out; ++o) plan.depths.push_back(window_of(s.d, o));
  // A window of padding alone is no infinity.
  plan.padded = s.w.pad_begin + s.w.pad_end <= s.w.in + kSlack &&
                std::all_of(plan.columns.begin(), plan.columns.end(), [](const Window& w) { return w.taps > 0; });
  if (plan.padded) {
    const int64_t reach = (s.w.out - 1) * s.w.stride + (s.w.kernel - 1) * s.w.dilation + 1;
    plan.before = s.w.pad_begin;
    plan.after = std::max<int64_t>(0, reach - plan.before - s.w.in);
    const Window d = {0, s.d.kernel, s.d.kernel}, h = {0, s.h.kernel, s.h.kernel};
    for (const Window& w : plan.columns) plan.factors.push_back(factor_of(s, d, h, w));
  }
  plan.line = (plan.before + s.w.in + plan.after + kSlack + 15) / 16 * 16;
  plan.scratch = std::min(kLines, s.h.out) * plan.line * static_cast<int64_t>(sizeof(float));
  const auto whole = [&](int64_t o) { return plan.columns[static_cast<size_t>(o)].taps == s.w.kernel; };
  while (plan.whole_begin < s.w.out && !whole(plan.whole_begin)) ++plan.whole_begin;
  plan.whole_end = plan.whole_begin;
  while (plan.whole_end < s.w.out && whole(plan.whole_end)) ++plan.whole_end;
  return plan;
}

int64_t task_count(const Plan& plan) { return plan.tasks; }
int64_t scratch_bytes(const Plan& plan) { return plan.scratch; }

void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch) {
  float* const line = static_cast<float*>(scratch) + plan.before;
  if (plan.padded) {
    const float neutral = plan.shape.kind == Kind::kMax ? -std::numeric_limits<float>::infinity() : 0.0f;
    for (int64_t k = 0; k < std::min(kLines, plan.shape.h.out); ++k) {
      std::fill_n(line + k * plan.line - plan.before, plan.before, neutral);
      std::fill_n(line + k * plan.line + plan.shape.w.in, plan.after, neutral);
    }
  }
  for (int64_t u = task * plan.units / plan.tasks; u < (task + 1) * plan.units / plan.tasks; ++u) {
    if (plan.shape.layout == Layout::kNhwc) {
      pool_nhwc_row(plan, args, u);
    } else {
      pool_nchw_plane(plan, args, u, line);
    }
  }
}

}  // namespace peri::kernels::cpu::pool
