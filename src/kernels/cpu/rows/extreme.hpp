// The index of the extreme element along an axis, for any type, with the definition's rules for NaN and equals: long
// rows are scanned in lanes, short ones side by side, other axes in blocks of adjacent columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels::cpu::extreme {

// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kLanes = 16, kColumns = 1024, kTaskElements = 1 << 15;
// Rows of at most so many elements are scanned side by side. Measured: benchmarks/results/2026-11-29_classical.md.
constexpr int64_t kMaxShort = 128;

struct Lines {
  int64_t outer = 1, axis = 1, inner = 1;
  int64_t rows_of_task() const { return std::max<int64_t>(1, kTaskElements / axis); }
  int64_t blocks() const { return (inner + kColumns - 1) / kColumns; }
  int64_t tasks() const { return inner == 1 ? (outer + rows_of_task() - 1) / rows_of_task() : outer * blocks(); }
};
// The lines of the anchor's first input along its attribute `axis`.
inline Result<Lines> read_lines(const ir::Node& n, int64_t otherwise) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t axis = n.i("axis", otherwise);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  if (axis < 0 || axis >= static_cast<int64_t>(d.size())) return refused("an axis out of range");
  Lines s;
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k)
    (k < axis ? s.outer : k == axis ? s.axis : s.inner) *= d[static_cast<size_t>(k)];
  if (s.outer * s.axis * s.inner == 0) return refused("an empty tensor");
  if (s.axis > std::numeric_limits<int32_t>::max())
    return refused("an axis of %lld elements", static_cast<long long>(s.axis));
  return s;
}

// Whether a later element replaces the current one: more extreme, or equal where the last one counts. NaN is the most
// extreme.
template <bool Largest, bool Last, class T>
bool takes(T later, T held) {
  const bool beyond = Largest ? later > held : later < held;
  // Without branches, so that it vectorises.
  if constexpr (Last) return beyond | (later == held) | (later != later);
  return beyond | ((later != later) & (held == held));
}

// Updates the current elements with those of row `k`.
template <bool Largest, bool Last, class T>
void advance(const T* x, int32_t k, int64_t count, T* best, int32_t* at) {
  for (int64_t l = 0; l < count; ++l) {
    const bool take = takes<Largest, Last>(x[l], best[l]);
    best[l] = take ? x[l] : best[l];
    at[l] = take ? k : at[l];
  }
}

// One row as rows of kLanes elements: each lane finds its best, then the best of the lanes.
template <bool Largest, bool Last, class T>
int64_t scan_row(const T* x, int64_t n) {
  T best[kLanes];
  int32_t at[kLanes] = {};
  const int64_t lanes = std::min(n, kLanes);
  std::copy_n(x, lanes, best);
  int64_t k = 1;
  for (; (k + 1) * kLanes <= n; ++k) advance<Largest, Last>(x + k * kLanes, static_cast<int32_t>(k), kLanes, best, at);
  if (k * kLanes < n) advance<Largest, Last>(x + k * kLanes, static_cast<int32_t>(k), n - k * kLanes, best, at);
  const auto index = [&](int64_t l) { return at[l] * kLanes + l; };
  int64_t winner = 0;
  for (int64_t l = 1; l < lanes; ++l) {
    const bool replace = index(l) > index(winner) ? takes<Largest, Last>(best[l], best[winner])
                                                  : !takes<Largest, Last>(best[winner], best[l]);
    if (replace) winner = l;
  }
  return index(winner);
}

// kLanes rows of `n` elements side by side: the lanes are rows, none of which has to be searched for its best.
template <bool Largest, bool Last, class T>
void scan_short_rows(const T* x, int64_t n, int64_t* y) {
  T best[kLanes], next[kLanes];
  int32_t at[kLanes] = {};
  for (int64_t r = 0; r < kLanes; ++r) best[r] = x[r * n];
  for (int64_t k = 1; k < n; ++k) {
    for (int64_t r = 0; r < kLanes; ++r) next[r] = x[r * n + k];
    advance<Largest, Last>(next, static_cast<int32_t>(k), kLanes, best, at);
  }
  std::copy_n(at, kLanes, y);
}

// Up to kColumns adjacent columns of a matrix with `stride` elements per row.
template <bool Largest, bool Last, class T>
void scan_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, int64_t* y) {
  T best[kColumns];
  int32_t at[kColumns];
  std::copy_n(x, columns, best);
  std::fill_n(at, columns, 0);
  for (int64_t k = 1; k < rows; ++k) {
    const T* row = x + k * stride;
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes)
      advance<Largest, Last>(row + c, static_cast<int32_t>(k), kLanes, best + c, at + c);
    advance<Largest, Last>(row + c, static_cast<int32_t>(k), columns - c, best + c, at + c);
  }
  std::copy_n(at, columns, y);
}

// The indices of one task's lines; `to` is the start of those of all lines.
template <bool Largest, bool Last, class T>
void scan(const Lines& s, int64_t task, const T* x, int64_t* to) {
  if (s.inner == 1) {
    const int64_t end = std::min(s.outer, (task + 1) * s.rows_of_task());
    int64_t r = task * s.rows_of_task();
    for (; s.axis <= kMaxShort && r + kLanes <= end; r += kLanes)
      scan_short_rows<Largest, Last>(x + r * s.axis, s.axis, to + r);
    for (; r < end; ++r) to[r] = scan_row<Largest, Last>(x + r * s.axis, s.axis);
    return;
  }
  const int64_t o = task / s.blocks(), c = task % s.blocks() * kColumns;
  scan_columns<Largest, Last>(x + o * s.axis * s.inner + c, s.axis, s.inner, std::min(kColumns, s.inner - c),
                              to + o * s.inner + c);
}

}  // namespace peri::kernels::cpu::extreme
