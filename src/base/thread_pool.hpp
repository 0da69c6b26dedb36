// ThreadPool: runs a fixed list of tasks on a fixed number of threads. The assignment of tasks to threads is not
// specified, so a task must not depend on it; results are the same for any number of threads if tasks write disjoint
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace peri {

// A reference to a callable that outlives the call. No allocation.
template <class Signature>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::decay_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT: a callable is a reference to it
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* o, A... a) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<A>(a)...);
        }) {}
  R operator()(A... a) const { return call_(object_, std::forward<A>(a)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

class ThreadPool {
 public:
  // `threads` >= 1 counts the caller: threads - 1 are started, or as many as the system grants. Workers spin for a
  // short while between runs, then sleep.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Calls fn(task, worker) once for each task in [0, tasks); worker in [0, threads()). Returns when all are done. One
  // run at a time; a call from inside a task runs its tasks on the calling worker alone. What a task throws is thrown
  // here, once all workers have left the run; of the other tasks some are then left out.
  void run(int64_t tasks, FunctionRef<void(int64_t task, int worker)> fn);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Number of CPUs this process may use (affinity mask and cgroup quota respected), at least 1.
int usable_cpus();

}  // namespace peri
