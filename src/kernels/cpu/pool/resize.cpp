// Resize: rows are blended first, then points along the row.
#include "kernels/cpu/pool/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/pool/loops.hpp"

namespace peri::kernels::cpu::pool {
namespace {

const Loops& loops(Isa isa) { return isa == Isa::kAvx512 ? avx512::kLoops : avx2::kLoops; }

// Where in the input output element o lies; T is the arithmetic.
template <class T>
double source_of(int64_t o, int64_t in, int64_t out, double by, Coordinates c) {
  const T x = static_cast<T>(o), scale = static_cast<T>(by), size = static_cast<T>(in), half = static_cast<T>(0.5);
  switch (c) {
    case Coordinates::kHalfPixel: return static_cast<double>((x + half) / scale - half);
    case Coordinates::kPytorchHalfPixel: return out > 1 ? static_cast<double>((x + half) / scale - half) : 0;
    case Coordinates::kAlignCorners: {  // by the width that the scale says: not rounded to a number of elements
      const T width = scale * size;
      return width == 1 ? 0 : static_cast<double>(x * (size - 1) / (width - 1));
    }
    case Coordinates::kAsymmetric: return static_cast<double>(x / scale);
  }
  return 0;
}

double nearest_of(double x, double scale, Nearest mode) {
  switch (mode) {
    case Nearest::kRoundPreferFloor: return std::ceil(x - 0.5);
    case Nearest::kRoundPreferCeil: return std::floor(x + 0.5);
    case Nearest::kFloor: return std::floor(x);
    case Nearest::kCeil: return std::ceil(x);
    case Nearest::kSimple: return scale < 1 ? std::ceil(x) : std::floor(x);
  }
  return x;
}

bool valid(const Taps& taps, int64_t in) {
  if (taps.next.size() != taps.index.size() || taps.t.size() != taps.index.size()) return false;
  const auto inside = [in](int32_t i) { return i >= 0 && i < in; };
  return std::all_of(taps.index.begin(), taps.index.end(), inside) &&
         std::all_of(taps.next.begin(), taps.next.end(), inside);
}

// a blended with b into y, or copied where that is all.
void blend_or_copy(const Loops& l, const float* a, const float* b, float t, float* y, int64_t n) {
  if (t == 0) {
    std::memcpy(y, a, static_cast<size_t>(n) * sizeof(float));
  } else {
    l.blend(a, b, t, y, n);
  }
}

// Each element kTimes, the last as often as there is room.
template <int64_t kTimes>
void repeat_row(const float* __restrict from, float* __restrict y, int64_t out) {
  const int64_t whole = out / kTimes;
  for (int64_t p = 0; p < whole; ++p)
    for (int64_t k = 0; k < kTimes; ++k) y[kTimes * p + k] = from[p];
  for (int64_t p = whole * kTimes; p < out; ++p) y[p] = from[whole];
}

// A row of nearest elements: each `repeat` times, or by index.
void pick_row(const ResizePlan& plan, const float* __restrict from, float* __restrict y, int64_t out) {
  if (plan.repeat == 2) return repeat_row<2>(from, y, out);
  if (plan.repeat == 3) return repeat_row<3>(from, y, out);
  if (plan.repeat == 4) return repeat_row<4>(from, y, out);
  const int32_t* const index = plan.shape.w.index.data();
  for (int64_t p = 0; p < out; ++p) y[p] = from[index[p]];
}

}  // namespace

Taps linear_taps(int64_t in, int64_t out, double scale, Coordinates coordinates) {
  Taps taps;
  for (int64_t o = 0; in > 0 && o < out; ++o) {
    const double x = std::clamp(source_of<double>(o, in, out, scale, coordinates), 0.0, static_cast<double>(in - 1));
    const int64_t i = std::min<int64_t>(static_cast<int64_t>(x), in - 1);
    taps.index.push_back(static_cast<int32_t>(i));
    taps.next.push_back(static_cast<int32_t>(std::min(i + 1, in - 1)));
    taps.t.push_back(static_cast<float>(x - static_cast<double>(i)));
  }
  return taps;
}

Taps nearest_taps(int64_t in, int64_t out, double scale, Coordinates coordinates, Nearest nearest) {
  Taps taps;
  for (int64_t o = 0; in > 0 && o < out; ++o) {
    // Which neighbour is nearest does not hang on more digits than the model's scales have, in the reference as here.
    const double x = nearest_of(source_of<float>(o, in, out, scale, coordinates), scale, nearest);
    const auto i = static_cast<int32_t>(std::clamp(x, 0.0, static_cast<double>(in - 1)));
    taps.index.push_back(i);
    taps.next.push_back(i);
    taps.t.push_back(0);
  }
  return taps;
}

Result<ResizePlan> make_plan(const ResizeShape& s, Isa isa) {
  ResizePlan plan{s, isa, 0, 0, 0};
  int64_t in = 1, out = 1;
  const int64_t out_h = static_cast<int64_t>(s.h.index.size()), out_w = static_cast<int64_t>(s.w.index.size());
  for (int64_t d : {s.batch, s.channels, s.in_h, s.in_w}) {
    if (d < 0 || d > INT32_MAX || __builtin_mul_overflow(in, std::max<int64_t>(d, 1), &in) || in > (int64_t{1} << 46))
      return invalid("resize: a dim is out of range");
  }
  if (!valid(s.h, s.in_h) || !valid(s.w, s.in_w)) return invalid("resize: a tap lies outside the input");
  for (int64_t d : {s.batch, s.channels, out_h, out_w}) {
    if (__builtin_mul_overflow(out, d, &out) || out > (int64_t{1} << 46)) return invalid("resize: too large");
  }
  if (out == 0) return plan;
  plan.units = (s.layout == Layout::kNhwc ? s.batch : s.batch * s.channels) * out_h;
  plan.tasks = std::min(plan.units, std::clamp<int64_t>((in + out) / 32768, 1, 512));
  const int64_t line = s.layout == Layout::kNhwc ? s.in_w * s.channels : s.in_w;
  const auto plain = [](const Taps& taps) {
    return std::all_of(taps.t.begin(), taps.t.end(), [](float t) { return t == 0; });
  };
  plan.picks = s.layout != Layout::kNhwc && plain(s.h) && plain(s.w);
  for (size_t times = 2; times <= 4; ++times) {
    bool repeats = true;
    for (size_t p = 0; p < s.w.index.size(); ++p) repeats &= s.w.index[p] == static_cast<int32_t>(p / times);
    if (repeats) plan.repeat = static_cast<int>(times);
  }
  plan.scratch = (line * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  return plan;
}

int64_t task_count(const ResizePlan& plan) { return plan.tasks; }
int64_t scratch_bytes(const ResizePlan& plan) { return plan.scratch; }

void run_task(const ResizePlan& plan, const Args& args, int64_t task, void* scratch) {
  const ResizeShape& s = plan.shape;
  const Loops& l = loops(plan.isa);
  const bool nhwc = s.layout == Layout::kNhwc;
  const int64_t out_h = static_cast<int64_t>(s.h.index.size()), out_w = static_cast<int64_t>(s.w.index.size());
  const int64_t row = nhwc ? s.in_w * s.channels : s.in_w, point = nhwc ? s.channels : 1;
  float* line = static_cast<float*>(scratch);
  const int64_t begin = task * plan.units / plan.tasks;
  for (int64_t u = begin; u < (task + 1) * plan.units / plan.tasks; ++u) {
    const size_t o = static_cast<size_t>(u % out_h);
    const float* x = args.x + u / out_h * s.in_h * row;
    if (plan.picks) {
      float* const y = args.y + u * out_w;
      if (u > begin && o > 0 && s.h.index[o] == s.h.index[o - 1])
        std::memcpy(y, y - out_w, static_cast<size_t>(out_w) * sizeof(float));
      else
        pick_row(plan, x + s.h.index[o] * row, y, out_w);
      continue;
    }
    const float* from = x + s.h.index[o] * row;
    if (s.h.t[o] != 0) {
      l.blend(from, x + s.h.next[o] * row, s.h.t[o], line, row);
      from = line;
    }
    float* y = args.y + u * out_w * point;
    if (!nhwc) {
      l.blend_at(from, s.w.index.data(), s.w.next.data(), s.w.t.data(), y, out_w);
      continue;
    }
    for (size_t p = 0; p < s.w.index.size(); ++p, y += point)
      blend_or_copy(l, from + s.w.index[p] * point, from + s.w.next[p] * point, s.w.t[p], y, point);
  }
}

}  // namespace peri::kernels::cpu::pool
