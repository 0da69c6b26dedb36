// Ctrl-C during a run. Python's own handler only sets a flag, which is checked after the run.
#pragma once

#include <peri/peri.hpp>

namespace peri::python {

// While it exists, SIGINT cancels the session's run and is passed to Python's handler. Has no effect outside the main
// thread, or if SIGINT does not raise KeyboardInterrupt: another handler may need the run's result.
class Interruptible {
 public:
  explicit Interruptible(Session& session);
  Interruptible(const Interruptible&) = delete;
  ~Interruptible();
  // Raises the exception of a pending signal. REQUIRES: the interpreter's lock.
  void check() const;

 private:
  bool on_ = false;
};

}  // namespace peri::python
