// Rates of all threads together: a part for each, started together, the shortest of several tries.
#pragma once

#include "base/thread_pool.hpp"

namespace peri::bench {

// Seconds of the slowest of part(0), part(1), ... on one thread each. They begin together: on a busy machine a thread
// that wakes late would otherwise find its part done by another, one after the other.
double seconds_together(ThreadPool& pool, FunctionRef<void(int64_t)> part);

// The shortest of what `once` took, in seconds, of calls for about `seconds`.
double shortest(double seconds, FunctionRef<double()> once);

}  // namespace peri::bench
