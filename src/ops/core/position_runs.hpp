// Positions of a result that stand side by side in one of its rows: what they share is computed once.
#pragma once

#include "ops/core/parallel.hpp"
#include "ops/entry.hpp"

namespace peri::ops {

// Calls f(first, count) for the runs of consecutive positions of call.out[0] that lie in one row of `row` elements, at
// most `longest` at a time, on the call's threads.
template <class F>
void each_run(const RefCall& call, int64_t row, int64_t longest, F f) {
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end;) {
      const int64_t first = call.position(n);
      int64_t count = 1;
      while (n + count < end && count < longest && call.position(n + count) == first + count &&
             (first + count) % row != 0)
        ++count;
      f(first, count);
      n += count;
    }
  });
}

// From so many positions on a run is done by dense_product().
constexpr int64_t kDenseRun = 4;

}  // namespace peri::ops
