// Parallel evaluation in the reference: equal contiguous slices, results independent of the number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "base/thread_pool.hpp"

namespace peri::ops {

// Calls f(begin, end) on slices of [0, n), at most `threads` at a time, each of at least `least` where there are as
// many: for indices that take less time than starting a thread does. f must only write what belongs to its own
// indices. Where the caller's work is stopped (base/stop.hpp) slices are skipped: the caller must check stop_asked()
// afterwards. An exception of a slice is rethrown here, once all slices have ended.
void parallel_for(int threads, int64_t n, FunctionRef<void(int64_t begin, int64_t end)> f, int64_t least = 1);

}  // namespace peri::ops
