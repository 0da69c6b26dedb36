// Commands run with a stack of a usual size, also where the shell allows less (ulimit -s).
#pragma once

#include "base/thread_pool.hpp"

namespace peri::cli {

// Returns the result of `work`, which runs on a new thread if the process's stack is too small; new threads then have
// the usual size too.
int with_stack(FunctionRef<int()> work);

}  // namespace peri::cli
