// A run gives each worker a slice of the tasks, the same part of the list in every run: a worker mostly reads what it
// wrote in the run before, and takes tasks from a cache line of its own. Who has none left takes those of others. A
// slice is one word, the run's generation and the number of tasks left: taking a task is a compare-exchange that fails
// for whoever comes late, so the caller waits for tasks and never for a worker that wakes late. The word also starts
// the run: a worker spins on that of its slice, then sleeps on a futex.
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
// Of one run; longer lists are several. A slice counts its tasks in 32 bits.
constexpr int64_t kMaxTasks = int64_t{1} << 31;

// What a worker is to do. On a cache line of its own, as are the counts.
struct alignas(64) Slice {
  std::atomic<uint64_t> word{0};  // upper half: generation of the run; lower: tasks that nobody took yet
  int64_t end = 0;                // behind the slice's last task: for those who took one

  uint32_t generation() const { return static_cast<uint32_t>(word.load(std::memory_order_acquire) >> 32); }

  // A task of the run, or -1.
  int64_t take(uint32_t run) {
    uint64_t now = word.load(std::memory_order_relaxed);
    while (now >> 32 == run && static_cast<uint32_t>(now) != 0) {
      if (word.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel, std::memory_order_relaxed))
        return end - static_cast<int64_t>(static_cast<uint32_t>(now));
    }
    return -1;
  }
};

// Tasks that a worker has done of the run of a generation.
struct alignas(64) Count {
  std::atomic<uint64_t> word{0};
};

uint64_t word_of(uint32_t generation, int64_t tasks) {
  return uint64_t{generation} << 32 | static_cast<uint64_t>(tasks);
}

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
  std::vector<Slice> slices;
  std::vector<Count> counts;
  uint32_t generation = 0;  // of the last run; the caller's
  const FunctionRef<void(int64_t, int)>* fn = nullptr;
  std::atomic<bool> stop{false}, failed{false};
  std::mutex fault_mutex;
  std::exception_ptr fault;  // the first of the run
  alignas(64) std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> bell{0};  // wakes them
  alignas(64) std::atomic<bool> caller_sleeps{false};
  std::atomic<uint32_t> finished{0};  // wakes it

  explicit State(int n) : threads(n), slices(static_cast<size_t>(n)), counts(static_cast<size_t>(n)) {}

  void one(int64_t task, int worker) {
    if (failed.load(std::memory_order_relaxed)) return;
    try {
      (*fn)(task, worker);
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(fault_mutex);
      if (!fault) fault = std::current_exception();
    }
  }

  // All tasks of the run that this worker can have; the caller, worker 0, counts them itself.
  int64_t work(uint32_t run, int worker) {
    int64_t done = 0;
    for (int k = 0; k < threads; ++k) {
      const int from = worker + k < threads ? worker + k : worker + k - threads;
      Slice& slice = slices[static_cast<size_t>(from)];
      for (int64_t task = slice.take(run); task >= 0; task = slice.take(run)) {
        one(task, worker);
        ++done;
        if (k > 0) tell(run, worker, done);
      }
      if (k == 0 && done > 0) tell(run, worker, done);  // once for all of a slice of one's own
    }
    return done;
  }

  void tell(uint32_t run, int worker, int64_t done) {
    if (worker == 0) return;
    counts[static_cast<size_t>(worker)].word.store(word_of(run, done));
    if (!caller_sleeps.load()) return;
    finished.fetch_add(1, std::memory_order_release);
    finished.notify_one();
  }

  int64_t told(uint32_t run) const {
    int64_t done = 0;
    for (size_t k = 1; k < static_cast<size_t>(threads); ++k) {
      const uint64_t word = counts[k].word.load();
      if (word >> 32 == run) done += static_cast<uint32_t>(word);
    }
    return done;
  }

  // Tasks [first, end) to all workers; the caller's part is the first of the list and is handed out last.
  void start(int64_t first, int64_t end) {
    if (++generation == 0) ++generation;  // 0: no run
    const int64_t tasks = end - first;
    for (int k = threads - 1; k >= 0; --k) {
      const int64_t from = tasks * k / threads, to = tasks * (k + 1) / threads;
      Slice& slice = slices[static_cast<size_t>(k)];
      slice.end = first + to;
      slice.word.store(word_of(generation, to - from), std::memory_order_release);
    }
    // A worker adds itself, then looks at its slice: either it sees the run, or it is seen here.
    if (sleepers.fetch_add(0, std::memory_order_acq_rel) == 0) return;
    bell.fetch_add(1, std::memory_order_release);
    bell.notify_all();
  }

  void wait_for(int64_t tasks) {
    for (int spin = 0; told(generation) != tasks; ++spin) {
      if (spin < kSpins) {
        _mm_pause();
        continue;
      }
      const uint32_t before = finished.load(std::memory_order_acquire);
      caller_sleeps.store(true);
      if (told(generation) != tasks) finished.wait(before, std::memory_order_acquire);
      caller_sleeps.store(false);
    }
  }

  void loop(int worker) {
    const Inside inside(this, worker);
    const Slice& slice = slices[static_cast<size_t>(worker)];
    uint32_t seen = 0;
    while (true) {
      uint32_t now = slice.generation();
      for (int spin = 0; now == seen && spin < kSpins; ++spin) {
        _mm_pause();
        now = slice.generation();
      }
      if (now == seen) {
        const uint32_t before = bell.load(std::memory_order_acquire);
        sleepers.fetch_add(1, std::memory_order_acq_rel);
        if (slice.generation() == seen) bell.wait(before, std::memory_order_acquire);
        sleepers.fetch_sub(1, std::memory_order_acq_rel);
        continue;
      }
      if (stop.load(std::memory_order_relaxed)) return;
      seen = now;
      work(now, worker);
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>(std::clamp(threads, 1, 1024))) {
  State& s = *state_;
  s.workers.reserve(static_cast<size_t>(s.threads));
  try {
    for (int k = 1; k < s.threads; ++k) s.workers.emplace_back([&s, k] { s.loop(k); });
  } catch (const std::system_error&) {  // no more threads to be had: results do not depend on their number
    s.threads = static_cast<int>(s.workers.size()) + 1;
  }
}

ThreadPool::~ThreadPool() {
  state_->stop = true;
  state_->start(0, 0);
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
  const Inside inside(&s, 0);
  if (tasks == 1 || s.threads == 1) {
    for (int64_t k = 0; k < tasks; ++k) fn(k, 0);
    return;
  }
  s.fn = &fn;
  for (int64_t first = 0; first < tasks; first += kMaxTasks) {
    const int64_t end = std::min(tasks, first + kMaxTasks);
    s.start(first, end);
    s.wait_for(end - first - s.work(s.generation, 0));
  }
  if (!s.fault) [[likely]]
    return;
  s.failed = false;
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
