// The smallest number of elements of element-wise work in a task, so that waking a thread for it pays off: one number
// for all kernels that only read, compute a few operations and write per element.
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu {

constexpr int64_t kTaskElements = 32768;

}  // namespace peri::kernels::cpu
