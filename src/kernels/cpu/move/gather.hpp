// Gather of rows along one axis (embedding lookups) and padding, for elements of any type. Shape → plan → tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"

namespace peri::kernels::cpu::move {

// x [outer, axis, row bytes] to y [outer, indices, row bytes]. Negative indices count from the end.
struct GatherShape {
  int64_t outer = 1, axis = 1, indices = 1, row_bytes = 4;
  bool wide = true;  // int64 indices, else int32
};
struct GatherPlan {
  GatherShape shape;
  int64_t units = 0, tasks = 0;
};
Result<GatherPlan> make_plan(const GatherShape& shape);
int64_t task_count(const GatherPlan& plan);
// An index outside [-axis, axis) is an error; nothing outside x is read and the row is left unchanged.
Status run_task(const GatherPlan& plan, const void* x, const void* indices, void* y, int64_t task);

// Each dim of dense x grows by before[d] and after[d] elements, or shrinks where they are negative.
enum class PadMode : uint8_t { kConstant, kEdge, kReflect, kWrap };
struct PadShape {
  PadMode mode = PadMode::kConstant;
  int element_bytes = 4;  // 1, 2, 4 or 8
  std::vector<int64_t> dims, before, after;
  uint64_t value = 0;  // the constant's bits, low bytes first
};
// A run of the last dim: `count` elements from input index `from` on, or the constant where that is -1.
struct PadRun {
  int64_t from = 0, count = 0;
};
struct PadPlan {
  PadShape shape;
  std::vector<int64_t> out;                 // the output's dims
  std::vector<std::vector<int64_t>> taken;  // [dim][output index]: input index, or -1: the constant
  std::vector<PadRun> row;                  // the same for the last dim, as runs
  int64_t units = 0, tasks = 0;             // a unit is a row of the last dim
};
Result<PadPlan> make_plan(const PadShape& shape);
int64_t task_count(const PadPlan& plan);
void run_task(const PadPlan& plan, const void* x, void* y, int64_t task);

}  // namespace peri::kernels::cpu::move
