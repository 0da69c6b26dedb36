// Threads of a reference: started for one call, joined before it returns, and done without where the system has none.
#include "ops/reference/parallel.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace peri::ops {

void parallel_for(int threads, int64_t n, FunctionRef<void(int64_t, int64_t)> f) {
  const int64_t slices = std::min<int64_t>(std::max(threads, 1), n);
  if (slices <= 1) {
    if (n > 0) f(0, n);
    return;
  }
  std::mutex mutex;
  std::exception_ptr fault;
  const auto slice = [&](int64_t k) {
    try {
      f(n * k / slices, n * (k + 1) / slices);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!fault) fault = std::current_exception();
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(static_cast<size_t>(slices));
  int64_t started = 1;
  try {
    for (; started < slices; ++started) workers.emplace_back(slice, started);
  } catch (const std::system_error&) {}
  slice(0);
  for (; started < slices; ++started) slice(started);
  for (std::thread& w : workers) w.join();
  if (fault) std::rethrow_exception(fault);
}

}  // namespace peri::ops
