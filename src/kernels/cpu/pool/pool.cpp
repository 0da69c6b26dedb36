// Plans and tasks of pooling: NHWC joins the taps of a pixel over vectors of channels; NCHW joins rows, then along a
// row.
#include "kernels/cpu/pool/pool.hpp"

#include <algorithm>
#include <limits>

#include "kernels/cpu/pool/loops.hpp"

namespace peri::kernels::cpu::pool {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

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

// The taps of output o that lie in the input: the first one's place, their number, and the taps that count with
// padding.
struct Window {
  int64_t first, taps, padded;
};
int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }
Window window_of(const Extent& e, int64_t o) {
  const int64_t begin = o * e.stride - e.pad_begin;
  const int64_t skip = ceil_div(-begin, e.dilation);
  const auto below = [&](int64_t limit) { return std::min(e.kernel, ceil_div(limit - begin, e.dilation)); };
  return {begin + skip * e.dilation, std::max<int64_t>(0, below(e.in) - skip), below(e.in + e.pad_end)};
}

// The maximum of a window that lies in the padding as a whole, as the reference and ONNX Runtime have it: a number, so
// that a product with zero behind it is zero.
constexpr float kEmptyMax = std::numeric_limits<float>::lowest();

float factor_of(const Shape& s, const Window& h, const Window& w) {
  if (s.kind == Kind::kMax) return 1;
  const int64_t count = s.count_include_pad ? h.padded * w.padded : h.taps * w.taps;
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
                         w.taps, s.w.dilation * s.channels, factor_of(s, h, w), y, s.channels);
  }
}

void pool_nchw_plane(const Plan& plan, const Args& args, int64_t plane, float* line) {
  const Shape& s = plan.shape;
  const bool maximum = s.kind == Kind::kMax;
  const float least = maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
  const float* x = args.x + plane * s.h.in * s.w.in;
  float* y = args.y + plane * s.h.out * s.w.out;
  for (int64_t p = 0; p < s.h.out; ++p, y += s.w.out) {
    const Window h = window_of(s.h, p);
    if (h.taps > 0)
      loops(plan.isa).join(maximum, x + h.first * s.w.in, h.taps, s.h.dilation * s.w.in, 1, 0, 1.0f, line, s.w.in);
    for (int64_t o = 0; o < s.w.out; ++o) {
      const Window w = window_of(s.w, o);
      float v = maximum && (h.taps == 0 || w.taps == 0) ? kEmptyMax : least;
      const float* tap = line + (w.taps > 0 ? w.first : 0);
      for (int64_t k = 0; h.taps > 0 && k < w.taps; ++k, tap += s.w.dilation) {
        if (maximum) {
          v = *tap > v || *tap != *tap ? *tap : v;
        } else {
          v += *tap;
        }
      }
      y[o] = maximum ? v : v * factor_of(s, h, w);
    }
  }
}

}  // namespace

Result<Plan> make_plan(const Shape& s, Isa isa) {
  Plan plan{s, isa, 0, 0, 0};
  if (s.batch < 0 || s.channels < 0 || s.batch > kMaxExtent || s.channels > kMaxExtent || !valid(s.h) || !valid(s.w))
    return invalid("pool: a dim, kernel, stride, dilation or pad is out of range");
  int64_t in = 1, out = 1;
  for (int64_t d : {s.batch, s.channels, s.h.in, s.w.in}) {
    if (__builtin_mul_overflow(in, std::max<int64_t>(d, 1), &in) || in > (int64_t{1} << 46))
      return invalid("pool: too large");
  }
  for (int64_t d : {s.batch, s.channels, s.h.out, s.w.out}) {
    if (__builtin_mul_overflow(out, d, &out) || out > (int64_t{1} << 46)) return invalid("pool: too large");
  }
  if (out == 0) return plan;
  const bool nhwc = s.layout == Layout::kNhwc;
  plan.units = nhwc ? s.batch * s.h.out : s.batch * s.channels;
  plan.tasks = std::min(plan.units, std::clamp<int64_t>((in + out) / 32768, 1, 512));
  if (!nhwc) plan.scratch = (s.w.in * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  return plan;
}

int64_t task_count(const Plan& plan) { return plan.tasks; }
int64_t scratch_bytes(const Plan& plan) { return plan.scratch; }

void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch) {
  for (int64_t u = task * plan.units / plan.tasks; u < (task + 1) * plan.units / plan.tasks; ++u) {
    if (plan.shape.layout == Layout::kNhwc) {
      pool_nhwc_row(plan, args, u);
    } else {
      pool_nchw_plane(plan, args, u, static_cast<float*>(scratch));
    }
  }
}

}  // namespace peri::kernels::cpu::pool
