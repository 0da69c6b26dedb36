// The interpreter's lock. Python ends a thread that asks for it while the interpreter ends, where the thread stands,
// and frames of C++ do not survive that: from the end's beginning on, such threads wait before they ask.
#pragma once

#include <nanobind/nanobind.h>

namespace peri::python {

// Called once, with the lock: tells when the interpreter's end begins.
void watch_the_end();
// Around a call that takes the lock.
void before_lock();
void after_lock();

// Has the lock while it lives. Any thread.
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

// What `f` gives, which runs without the lock that this thread has.
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
