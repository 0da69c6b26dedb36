// Rates of all threads together: a part for each, started together, the shortest of several tries.
#pragma once

#include "base/thread_pool.hpp"

namespace peri::bench {

// Seconds of the slowest of part(0), part(1), ... on one thread each. They start together: on a busy machine another
// thread would otherwise execute the part of one that wakes late, after its own.
double seconds_together(ThreadPool& pool, FunctionRef<void(int64_t)> part);

// The shortest duration of `once`, in seconds, in repeated calls for about `seconds`.
double shortest(double seconds, FunctionRef<double()> once);

}  // namespace peri::bench
