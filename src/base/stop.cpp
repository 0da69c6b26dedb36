// A thread-local predicate.
#include "base/stop.hpp"

namespace peri {

namespace {
thread_local const std::function<bool()>* asked = nullptr;
}

StopScope::StopScope(const std::function<bool()>& stop) : outer_(asked) {
  if (stop) asked = &stop;
}
StopScope::~StopScope() { asked = outer_; }

bool stop_asked() { return asked && (*asked)(); }
bool may_stop() { return asked; }

}  // namespace peri
