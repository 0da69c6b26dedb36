// Strided copy of elements of any type: transpose, layout change, slice (also with negative steps), concat, split and
// expand are all one loop nest. Shape → plan → tasks. Dims are merged and ordered so that rows are copied by memcpy and
// transposes by blocks of cache lines.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "kernels/match/copy_shape.hpp"

namespace peri::kernels::cpu::move {

enum class CopyMode : uint8_t { kRows, kTranspose, kElements };

struct CopyPlan {
  CopyMode mode = CopyMode::kRows;
  int element_bytes = 4;
  std::vector<int64_t> dims, from_strides, to_strides;  // outer dims, then the two of the inner loops
  int64_t from_offset = 0, to_offset = 0;
  int64_t pieces = 1;  // of the second-to-last dim, for tasks
  int64_t units = 0, tasks = 0;
};

Result<CopyPlan> make_plan(const CopyShape& shape);
int64_t task_count(const CopyPlan& plan);
// `from` and `to` must not overlap.
void run_task(const CopyPlan& plan, const void* from, void* to, int64_t task);

}  // namespace peri::kernels::cpu::move
