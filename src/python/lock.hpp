// The interpreter's lock. During finalization Python ends a thread that requests the lock, which C++ stack frames do
// not survive: from the beginning of finalization, such threads wait instead.
#pragma once

#include <nanobind/nanobind.h>

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

// Calls `f` without the lock, which this thread holds, and returns its result.
template <class F>
auto unlocked(F f) {
  struct Unlocked {
    PyThreadState* const state = PyEval_SaveThread();
    ~Unlocked() {
      before_lock();
      PyEval_RestoreThread(state);
      after_lock();
    }
  } const released;
  return f();
}

}  // namespace peri::python
