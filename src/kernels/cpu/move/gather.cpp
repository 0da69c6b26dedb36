// Plans and tasks of gather and pad.
#include "kernels/cpu/move/gather.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace peri::kernels::cpu::move {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 46;  // offsets in bytes stay within int64
// Measured: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kTaskBytes = 128 * 1024;

Result<int64_t> bytes_of(std::initializer_list<int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims) {
    if (d < 0 || __builtin_mul_overflow(count, std::max<int64_t>(d, 1), &count) || count > kMaxElements)
      return invalid("gather: a dim is negative or the tensor is too large");
  }
  return count;
}

// The input place that output place o (counted from the input's start) takes, or -1.
int64_t source_of(PadMode mode, int64_t o, int64_t n) {
  if (o >= 0 && o < n) return o;
  switch (mode) {
    case PadMode::kConstant: return -1;
    case PadMode::kEdge: return o < 0 ? 0 : n - 1;
    case PadMode::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1), at = (o % period + period) % period;
      return at < n ? at : period - at;
    }
    case PadMode::kWrap: return (o % n + n) % n;
  }
  return -1;
}

template <class T>
void pad_row(const PadPlan& plan, const char* x, char* y, bool outside) {
  T value;
  std::memcpy(&value, &plan.shape.value, sizeof value);
  T* to = reinterpret_cast<T*>(y);
  if (outside) {
    std::fill_n(to, plan.out.back(), value);
    return;
  }
  for (const PadRun& run : plan.row) {
    if (run.from < 0)
      std::fill_n(to, run.count, value);
    else if (run.count == 1)
      *to = reinterpret_cast<const T*>(x)[run.from];
    else
      std::memcpy(to, reinterpret_cast<const T*>(x) + run.from, static_cast<size_t>(run.count) * sizeof(T));
    to += run.count;
  }
}

std::vector<PadRun> runs_of(const std::vector<int64_t>& taken) {
  std::vector<PadRun> out;
  for (const int64_t at : taken) {
    const bool goes_on = !out.empty() && (at < 0 ? out.back().from < 0
                                                 : out.back().from >= 0 && out.back().from + out.back().count == at);
    if (goes_on)
      ++out.back().count;
    else
      out.push_back({at, 1});
  }
  return out;
}

}  // namespace

Result<GatherPlan> make_plan(const GatherShape& s) {
  GatherPlan plan{s, 0, 0};
  PERI_TRY(bytes_of({s.outer, s.axis, s.row_bytes}));
  PERI_ASSIGN(const int64_t bytes, bytes_of({s.outer, s.indices, s.row_bytes}));
  if (s.outer == 0 || s.indices == 0 || s.row_bytes == 0) return plan;
  plan.units = s.outer * s.indices;
  plan.tasks = std::min(plan.units, std::clamp<int64_t>(bytes / kTaskBytes, 1, 512));
  return plan;
}
int64_t task_count(const GatherPlan& plan) { return plan.tasks; }

namespace {
// Rows of `kBytes` bytes; 0: of as many as the plan says.
template <int kBytes, class Index>
Status gather_rows(const GatherPlan& plan, const char* from, const Index* indices, char* to, int64_t task) {
  const GatherShape& s = plan.shape;
  const int64_t bytes = kBytes > 0 ? kBytes : s.row_bytes, end = (task + 1) * plan.units / plan.tasks;
  int64_t u = task * plan.units / plan.tasks, i = u % s.indices;
  const char* line = from + u / s.indices * s.axis * bytes;
  for (; u < end; ++u) {
    int64_t at = indices[i];
    at += at < 0 ? s.axis : 0;
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(s.axis))
      return invalid("gather: index %lld of %lld", static_cast<long long>(indices[i]), static_cast<long long>(s.axis));
    std::memcpy(to + u * bytes, line + at * bytes, static_cast<size_t>(bytes));
    if (++i == s.indices) {
      i = 0;
      line += s.axis * bytes;
    }
  }
  return Ok{};
}
template <class Index>
Status gather_any(const GatherPlan& plan, const char* from, const Index* indices, char* to, int64_t task) {
  switch (plan.shape.row_bytes) {
    case 1: return gather_rows<1>(plan, from, indices, to, task);
    case 2: return gather_rows<2>(plan, from, indices, to, task);
    case 4: return gather_rows<4>(plan, from, indices, to, task);
    case 8: return gather_rows<8>(plan, from, indices, to, task);
    default: return gather_rows<0>(plan, from, indices, to, task);
  }
}
}  // namespace

Status run_task(const GatherPlan& plan, const void* x, const void* indices, void* y, int64_t task) {
  const char* from = static_cast<const char*>(x);
  char* to = static_cast<char*>(y);
  return plan.shape.wide ? gather_any(plan, from, static_cast<const int64_t*>(indices), to, task)
                         : gather_any(plan, from, static_cast<const int32_t*>(indices), to, task);
}

Result<PadPlan> make_plan(const PadShape& s) {
  PadPlan plan{s, {}, {}, {}, 0, 0};
  if (s.element_bytes != 1 && s.element_bytes != 2 && s.element_bytes != 4 && s.element_bytes != 8)
    return invalid("pad: elements of %d bytes", s.element_bytes);
  if (s.before.size() != s.dims.size() || s.after.size() != s.dims.size()) return invalid("pad: pads of another rank");
  if (plan.shape.dims.empty()) {  // a scalar is a row of one
    plan.shape.dims = {1};
    plan.shape.before = plan.shape.after = {0};
  }
  int64_t in = 1, count = 1;
  for (size_t d = 0; d < plan.shape.dims.size(); ++d) {
    const int64_t n = plan.shape.dims[d], before = plan.shape.before[d], after = plan.shape.after[d];
    if (n < 0 || std::abs(before) > kMaxElements || std::abs(after) > kMaxElements || before + after + n < 0 ||
        __builtin_mul_overflow(in, std::max<int64_t>(n, 1), &in) || in > kMaxElements ||
        __builtin_mul_overflow(count, before + after + n, &count) || count > kMaxElements ||
        before + after + n > (int64_t{1} << 31))
      return invalid("pad: dim %zu becomes negative or too large", d);
    if (n == 0 && before + after > 0 && s.mode != PadMode::kConstant)
      return invalid("pad: dim %zu has nothing to repeat", d);
    plan.out.push_back(before + after + n);
  }
  if (count == 0) return plan;
  for (size_t d = 0; d < plan.out.size(); ++d) {
    std::vector<int64_t> taken;
    for (int64_t o = 0; o < plan.out[d]; ++o)
      taken.push_back(source_of(s.mode, o - plan.shape.before[d], plan.shape.dims[d]));
    plan.taken.push_back(std::move(taken));
  }
  plan.row = runs_of(plan.taken.back());
  plan.units = count / plan.out.back();
  plan.tasks = std::min(plan.units, std::clamp<int64_t>(count * s.element_bytes / kTaskBytes, 1, 512));
  return plan;
}
int64_t task_count(const PadPlan& plan) { return plan.tasks; }

void run_task(const PadPlan& plan, const void* x, void* y, int64_t task) {
  const PadShape& s = plan.shape;
  const int64_t bytes = s.element_bytes;
  for (int64_t u = task * plan.units / plan.tasks; u < (task + 1) * plan.units / plan.tasks; ++u) {
    int64_t rest = u, at = 0, step = s.dims.back();
    bool outside = false;
    for (size_t d = plan.out.size() - 1; d-- > 0;) {
      const int64_t from = plan.taken[d][static_cast<size_t>(rest % plan.out[d])];
      rest /= plan.out[d];
      outside |= from < 0;
      at += from * step;
      step *= s.dims[d];
    }
    const char* row = static_cast<const char*>(x) + (outside ? 0 : at * bytes);
    char* to = static_cast<char*>(y) + u * plan.out.back() * bytes;
    switch (s.element_bytes) {
      case 1: pad_row<uint8_t>(plan, row, to, outside); break;
      case 2: pad_row<uint16_t>(plan, row, to, outside); break;
      case 4: pad_row<uint32_t>(plan, row, to, outside); break;
      default: pad_row<uint64_t>(plan, row, to, outside); break;
    }
  }
}

}  // namespace peri::kernels::cpu::move
