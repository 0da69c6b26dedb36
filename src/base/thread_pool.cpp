// Tasks are handed out from one atomic counter. A generation word starts a run; sleeping workers wait on it with a
// futex. A worker joins a run only while it is open, and the caller closes it when no task is left: the caller does not
// wait for a worker that wakes late.
#include "base/thread_pool.hpp"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/control_groups.hpp"

namespace peri {

namespace {
// Spins before sleeping: gaps between the steps of one run are a few microseconds; 2000 pauses are about 30-60 us.
// Fewer cost 3 to 10 % of a softmax of 0.04 ms: benchmarks/results/2026-11-22_constants.md.
constexpr int kSpins = 2000;
constexpr uint32_t kOpen = 1u << 31;
thread_local const void* t_inside = nullptr;
thread_local int t_worker = 0;

// While it lives this thread is inside a run of `pool`, as `worker`.
struct Inside {
  const void* outer = t_inside;
  int outer_worker = t_worker;
  Inside(const void* pool, int worker) {
    t_inside = pool;
    t_worker = worker;
  }
  ~Inside() {
    t_inside = outer;
    t_worker = outer_worker;
  }
};
}  // namespace

struct ThreadPool::State {
  int threads = 1;
  std::vector<std::thread> workers;
  std::mutex one_run;
  alignas(64) std::atomic<uint32_t> generation{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<uint32_t> joined{0};  // kOpen, plus the number of workers inside the run
  int64_t tasks = 0;
  const FunctionRef<void(int64_t, int)>* fn = nullptr;
  std::mutex fault_mutex;
  std::exception_ptr fault;  // the first of the run

  void work(int worker) {
    const Inside inside(this, worker);
    try {
      for (int64_t k = next.fetch_add(1, std::memory_order_relaxed); k < tasks;
           k = next.fetch_add(1, std::memory_order_relaxed))
        (*fn)(k, worker);
    } catch (...) {
      next.store(tasks, std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(fault_mutex);
      if (!fault) fault = std::current_exception();
    }
  }

  bool join() {
    uint32_t now = joined.load(std::memory_order_acquire);
    while (now & kOpen)
      if (joined.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  void loop(int worker) {
    uint32_t seen = 0;
    while (true) {
      uint32_t now = generation.load(std::memory_order_acquire);
      for (int spin = 0; now == seen && spin < kSpins; ++spin) {
        _mm_pause();
        now = generation.load(std::memory_order_acquire);
      }
      if (now == seen) {
        generation.wait(seen, std::memory_order_acquire);
        continue;
      }
      seen = now;
      if (stop.load(std::memory_order_relaxed)) return;
      if (!join()) continue;
      work(worker);
      if (joined.fetch_sub(1, std::memory_order_acq_rel) == 1) joined.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.threads = std::clamp(threads, 1, 1024);
  s.workers.reserve(static_cast<size_t>(s.threads));
  try {
    for (int k = 1; k < s.threads; ++k) s.workers.emplace_back([&s, k] { s.loop(k); });
  } catch (const std::system_error&) {  // no more threads to be had: results do not depend on their number
    s.threads = static_cast<int>(s.workers.size()) + 1;
  }
}

ThreadPool::~ThreadPool() {
  state_->stop = true;
  state_->generation.fetch_add(1, std::memory_order_release);
  state_->generation.notify_all();
  for (std::thread& t : state_->workers) t.join();
}

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int64_t tasks, FunctionRef<void(int64_t, int)> fn) {
  if (tasks <= 0) return;
  State& s = *state_;
  if (t_inside == &s) {
    for (int64_t k = 0; k < tasks; ++k) fn(k, t_worker);
    return;
  }
  const std::lock_guard<std::mutex> lock(s.one_run);
  if (tasks == 1 || s.threads == 1) {
    const Inside inside(&s, 0);
    for (int64_t k = 0; k < tasks; ++k) fn(k, 0);
    return;
  }
  s.tasks = tasks;
  s.fn = &fn;
  s.next.store(0, std::memory_order_relaxed);
  s.joined.store(kOpen, std::memory_order_release);
  s.generation.fetch_add(1, std::memory_order_release);
  s.generation.notify_all();
  s.work(0);
  uint32_t left = s.joined.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (int spin = 0; left != 0; ++spin, left = s.joined.load(std::memory_order_acquire)) {
    if (spin < kSpins)
      _mm_pause();
    else
      s.joined.wait(left, std::memory_order_acquire);
  }
  if (s.fault) [[unlikely]]
    std::rethrow_exception(std::exchange(s.fault, nullptr));
}

int usable_cpus() {
  static const double kQuota = cpu_quota().cpus;  // read once: a call is made for small work too
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (kQuota > 0) n = std::min(n, static_cast<int>(std::ceil(std::min(kQuota, 1e6))));
  return std::max(n, 1);
}

}  // namespace peri
