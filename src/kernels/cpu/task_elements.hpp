// How many elements a task of element-wise work takes at least, so that waking a thread for it pays: one number for
// all kernels that do as little an element as reading, a few operations and writing.
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu {

constexpr int64_t kTaskElements = 32768;

}  // namespace peri::kernels::cpu
