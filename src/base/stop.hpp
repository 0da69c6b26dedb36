// Cancellation of long work: the caller installs a predicate for its thread, and the work polls it at any depth. Once
// it has returned true it stays true.
#pragma once

#include <functional>

namespace peri {

// During its lifetime stop_asked() of this thread calls `stop`, which must outlive it; an empty one keeps the outer
// predicate.
class StopScope {
 public:
  explicit StopScope(const std::function<bool()>& stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::function<bool()>* outer_;
};

bool stop_asked();
// Whether a predicate is installed: work that cannot be stopped need not be split.
bool may_stop();

}  // namespace peri
