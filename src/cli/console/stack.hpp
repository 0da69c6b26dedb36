// Commands run with a stack of a usual size, also where the shell allows less (ulimit -s).
#pragma once

#include "base/thread_pool.hpp"

namespace peri::cli {

// What `work` returns. It runs on a thread of its own where the process's stack is too small, and so are new threads'.
int with_stack(FunctionRef<int()> work);

}  // namespace peri::cli
