// The interpreter's lock. During finalization Python ends a thread that requests the lock, which C++ stack frames do
// not survive: from the beginning of finalization, such threads wait instead.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace peri::python {

// Called once, with the lock: registers a function for the beginning of finalization.
void watch_the_end();
// Called before each call that takes the lock.
void before_lock();
void after_lock();

// Holds the lock during its lifetime. Any thread.
class Locked {
 public:
  Locked() {
    before_lock();
    state_ = PyGILState_Ensure();
    after_lock();
  }
  Locked(const Locked&) = delete;
  ~Locked() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// Keeps an exception of a callback that cannot end its call, for the end of that call: the first of this thread.
// REQUIRES: the lock.
void keep_raised(std::exception_ptr raised);
// Raises what was kept. REQUIRES: the lock.
void raise_kept();

// Calls `f` without the lock, which this thread holds, and returns its result, or raises what a callback kept.
template <class F>
auto unlocked(F f) {
  struct Unlocked {
    PyThreadState* const state = PyEval_SaveThread();
    ~Unlocked() {
      before_lock();
      PyEval_RestoreThread(state);
      after_lock();
    }
  };
  auto made = [&] {
    const Unlocked released;
    return f();
  }();
  raise_kept();
  return made;
}

}  // namespace peri::python
