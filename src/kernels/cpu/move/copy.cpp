// Plans and tasks of strided copies.
#include "kernels/cpu/move/copy.hpp"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace peri::kernels::cpu::move {
namespace {

// Measured: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kTaskBytes = 128 * 1024;
constexpr int64_t kLine = 16;  // source elements of a transpose taken at once: a cache line of floats
constexpr size_t kMaxDims = 64;
// Rows are picked out of lines if fewer neighbours than this lie side by side in the source, at most this many elements
// apart. Measured: benchmarks/results/2026-11-24_constants_choices.md.
constexpr int64_t kFewNeighbours = 4;

struct Dim {
  int64_t n, from, to;
};

// Dims by falling stride of the destination, neighbours merged.
std::vector<Dim> ordered_dims(const CopyShape& s) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < s.dims.size(); ++d) {
    if (s.dims[d] != 1) dims.push_back({s.dims[d], s.from_strides[d], s.to_strides[d]});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.to > b.to; });
  std::vector<Dim> merged;
  for (const Dim& d : dims) {
    if (!merged.empty() && merged.back().to == d.to * d.n && merged.back().from == d.from * d.n) {
      merged.back() = {merged.back().n * d.n, d.from, d.to};
    } else {
      merged.push_back(d);
    }
  }
  while (merged.size() < 2) merged.insert(merged.begin(), {1, 0, 0});
  return merged;
}

constexpr int64_t kMaxElementBytes = 16;

// Short rows become elements of their size, so that they are moved by loads and stores and can be transposed, where
// everything else lies at multiples of them. Measured: benchmarks/results/2026-11-29_fourier.md.
void widen_elements(std::vector<Dim>* dims, CopyPlan* plan) {
  const Dim last = dims->back();
  const bool power = last.n > 1 && (last.n & (last.n - 1)) == 0;
  if (last.from != 1 || last.to != 1 || !power || plan->element_bytes * last.n > kMaxElementBytes) return;
  if (plan->from_offset % last.n != 0 || plan->to_offset % last.n != 0) return;
  for (size_t d = 0; d + 1 < dims->size(); ++d)
    if ((*dims)[d].from % last.n != 0 || (*dims)[d].to % last.n != 0) return;
  dims->pop_back();
  for (Dim& d : *dims) d = {d.n, d.from / last.n, d.to / last.n};
  while (dims->size() < 2) dims->insert(dims->begin(), {1, 0, 0});
  plan->element_bytes *= static_cast<int>(last.n);
  plan->from_offset /= last.n;
  plan->to_offset /= last.n;
}

template <class T>
void copy_elements(const T* __restrict from, int64_t from_step, T* __restrict to, int64_t to_step, int64_t n) {
  // Steps that are known are taken by shuffles.
  if (from_step == 2 && to_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  } else if (from_step == 4 && to_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[4 * i];
  } else if (from_step == 0 && to_step == 1) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

// Elements of several smaller ones lie at the addresses of these.
struct [[gnu::packed]] Eight {
  uint64_t a;
};
struct [[gnu::packed]] Wide {
  uint64_t a, b;
};

void copy_elements(int bytes, const char* from, int64_t from_step, char* to, int64_t to_step, int64_t n) {
  const auto run = [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    copy_elements(reinterpret_cast<const T*>(from), from_step, reinterpret_cast<T*>(to), to_step, n);
  };
  switch (bytes) {
    case 1: return run(static_cast<uint8_t*>(nullptr));
    case 2: return run(static_cast<uint16_t*>(nullptr));
    case 4: return run(static_cast<uint32_t*>(nullptr));
    case 8: return run(static_cast<Eight*>(nullptr));
    default: return run(static_cast<Wide*>(nullptr));
  }
}

// to[a * to_step + b] = from[a + b * from_step] for a < rows, b < n.
template <class T>
void transpose_any(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t rows, int64_t n) {
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t a = 0; a < rows; ++a) to[a * to_step + b] = from[a + b * from_step];
  }
}

void transpose_4(const float* from, int64_t from_step, float* to, int64_t to_step) {
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_step);
  __m128 c = _mm_loadu_ps(from + 2 * from_step), d = _mm_loadu_ps(from + 3 * from_step);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + to_step, b);
  _mm_storeu_ps(to + 2 * to_step, c);
  _mm_storeu_ps(to + 3 * to_step, d);
}

void transpose_floats(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t rows, int64_t n) {
  int64_t b = 0;
  for (; b + 4 <= n; b += 4) {
    int64_t a = 0;
    for (; a + 4 <= rows; a += 4) transpose_4(from + a + b * from_step, from_step, to + a * to_step + b, to_step);
    transpose_any(from + a + b * from_step, from_step, to + a * to_step + b, to_step, rows - a, 4);
  }
  transpose_any(from + b * from_step, from_step, to + b, to_step, rows, n - b);
}

void transpose(int bytes, const char* from, int64_t from_step, char* to, int64_t to_step, int64_t rows, int64_t n) {
  const auto run = [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    transpose_any(reinterpret_cast<const T*>(from), from_step, reinterpret_cast<T*>(to), to_step, rows, n);
  };
  switch (bytes) {
    case 1: return run(static_cast<uint8_t*>(nullptr));
    case 2: return run(static_cast<uint16_t*>(nullptr));
    case 4:
      return transpose_floats(reinterpret_cast<const float*>(from), from_step, reinterpret_cast<float*>(to), to_step,
                              rows, n);
    case 8: return run(static_cast<Eight*>(nullptr));
    default: return run(static_cast<Wide*>(nullptr));
  }
}

}  // namespace

Result<CopyPlan> make_plan(const CopyShape& s) {
  CopyPlan plan;
  plan.element_bytes = s.element_bytes;
  PERI_ASSIGN(const int64_t count, check_copy(s));
  if (count == 0) return plan;
  std::vector<Dim> dims = ordered_dims(s);
  if (dims.size() > kMaxDims) return invalid("copy: more than %zu dims", kMaxDims);
  plan.from_offset = s.from_offset;
  plan.to_offset = s.to_offset;
  widen_elements(&dims, &plan);
  const Dim last = dims.back();
  if (last.from == 1 && last.to == 1) {
    plan.mode = CopyMode::kRows;
  } else {
    plan.mode = CopyMode::kElements;
    for (size_t d = 0; d + 1 < dims.size() && last.to == 1; ++d) {
      if (dims[d].from != 1) continue;
      if (dims[d].n < kFewNeighbours && last.from <= kFewNeighbours) break;
      plan.mode = CopyMode::kTranspose;
      std::rotate(dims.begin() + static_cast<int64_t>(d), dims.begin() + static_cast<int64_t>(d) + 1, dims.end() - 1);
      break;
    }
  }
  for (const Dim& d : dims) {
    plan.dims.push_back(d.n);
    plan.from_strides.push_back(d.from);
    plan.to_strides.push_back(d.to);
  }
  const int64_t rows = plan.dims[plan.dims.size() - 2];
  const int64_t step = plan.mode == CopyMode::kTranspose ? kLine : 1;
  plan.pieces = (rows + step - 1) / step;
  plan.units = count * s.element_bytes / plan.element_bytes / last.n / rows * plan.pieces;
  plan.tasks = std::min(plan.units, std::clamp<int64_t>(count * s.element_bytes / kTaskBytes, 1, 512));
  return plan;
}

int64_t task_count(const CopyPlan& plan) { return plan.tasks; }

namespace {
// Where the outer dims stand, and what that is in the two tensors; a division each only where a task begins.
class Outer {
 public:
  Outer(const CopyPlan& plan, int64_t unit) : plan_(plan), dims_(plan.dims.size() - 2) {
    for (size_t d = dims_; d-- > 0; unit /= plan.dims[d]) {
      at_[d] = unit % plan.dims[d];
      from += at_[d] * plan.from_strides[d];
      to += at_[d] * plan.to_strides[d];
    }
  }
  void next() {
    for (size_t d = dims_; d-- > 0;) {
      from += plan_.from_strides[d];
      to += plan_.to_strides[d];
      if (++at_[d] < plan_.dims[d]) return;
      at_[d] = 0;
      from -= plan_.dims[d] * plan_.from_strides[d];
      to -= plan_.dims[d] * plan_.to_strides[d];
    }
  }
  int64_t from = 0, to = 0;

 private:
  const CopyPlan& plan_;
  size_t dims_;
  int64_t at_[kMaxDims];
};
}  // namespace

void run_task(const CopyPlan& plan, const void* from, void* to, int64_t task) {
  const size_t last = plan.dims.size() - 1, rows = last - 1;
  const int64_t bytes = plan.element_bytes, step = plan.mode == CopyMode::kTranspose ? kLine : 1, n = plan.dims[last];
  const int64_t begin = task * plan.units / plan.tasks, end = (task + 1) * plan.units / plan.tasks;
  Outer outer(plan, begin / plan.pieces);
  int64_t piece = begin % plan.pieces;
  for (int64_t u = begin; u < end; ++u, ++piece) {
    if (piece == plan.pieces) {
      piece = 0;
      outer.next();
    }
    const int64_t row = piece * step, count = std::min(step, plan.dims[rows] - row);
    const int64_t a = plan.from_offset + row * plan.from_strides[rows] + outer.from,
                  b = plan.to_offset + row * plan.to_strides[rows] + outer.to;
    const char* x = static_cast<const char*>(from) + a * bytes;
    char* y = static_cast<char*>(to) + b * bytes;
    if (plan.mode == CopyMode::kRows) {
      std::memcpy(y, x, static_cast<size_t>(n * bytes));
    } else if (plan.mode == CopyMode::kTranspose) {
      transpose(plan.element_bytes, x, plan.from_strides[last], y, plan.to_strides[rows], count, n);
    } else {
      copy_elements(plan.element_bytes, x, plan.from_strides[last], y, plan.to_strides[last], n);
    }
  }
}

}  // namespace peri::kernels::cpu::move
