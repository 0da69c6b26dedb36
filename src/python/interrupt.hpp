// Ctrl-C during a run. Python's own handler only notes it: alone it would be heard of when the run is over.
#pragma once

#include <peri/peri.hpp>

namespace peri::python {

// While it lives, SIGINT cancels the session's run, and is noted as before. Does nothing outside the main thread, and
// where SIGINT does not raise KeyboardInterrupt: another handler may want the run's result.
class Interruptible {
 public:
  explicit Interruptible(Session& session);
  Interruptible(const Interruptible&) = delete;
  ~Interruptible();
  // Raises what a signal has to raise. REQUIRES: the interpreter's lock.
  void check() const;

 private:
  bool on_ = false;
};

}  // namespace peri::python
