// How a reference spreads its work over threads: equal contiguous slices, results independent of the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace peri::ops {

// Calls f(begin, end) on slices of [0, n), at most `threads` at a time; f must only write what its own indices own.
template <class F>
void parallel_for(int threads, int64_t n, F f) {
  const int64_t slices = std::min<int64_t>(std::max(threads, 1), n);
  if (slices <= 1) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
  std::vector<std::thread> workers;
  for (int64_t k = 1; k < slices; ++k)
    workers.emplace_back([&f, n, slices, k] { f(n * k / slices, n * (k + 1) / slices); });
  f(int64_t{0}, n / slices);
  for (std::thread& w : workers) w.join();
}

}  // namespace peri::ops
