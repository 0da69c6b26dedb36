// Threads of a reference evaluation: started for one call, joined before it returns; fewer where the system refuses
// them.
#include "ops/reference/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/stop.hpp"

namespace peri::ops {

constexpr int64_t kPieces = 64;  // of a slice, between which it may be stopped

void parallel_for(int threads, int64_t n, FunctionRef<void(int64_t, int64_t)> f, int64_t least) {
  if (n <= 0) return;
  const int64_t slices = std::min<int64_t>(std::max(threads, 1), std::max<int64_t>(n / least, 1));
  if (slices <= 1 && !may_stop()) return f(0, n);
  // Of work that may be stopped a slice is done in pieces; the calling thread asks for all.
  const int64_t pieces = may_stop() ? kPieces : 1;
  std::atomic<bool> stopped = false;
  std::mutex mutex;
  std::exception_ptr fault;
  const auto slice = [&](int64_t k) {
    try {
      const int64_t begin = n * k / slices, size = n * (k + 1) / slices - begin;
      const int64_t count = std::min(pieces, size);
      for (int64_t p = 0; p < count && !stopped; ++p) {
        f(begin + size * p / count, begin + size * (p + 1) / count);
        if (k == 0 && pieces > 1 && stop_asked()) stopped = true;
      }
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
  } catch (const std::system_error&) {}  // NOLINT(bugprone-empty-catch): what did not start runs below
  slice(0);
  for (; started < slices; ++started) slice(started);
  for (std::thread& w : workers) w.join();
  if (fault) std::rethrow_exception(fault);
}

}  // namespace peri::ops
