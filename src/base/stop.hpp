// Long work ends where its caller says so: who begins it names the question, and what works on that thread asks it now
// and then, however deep it is. Once the answer was true it stays true.
#pragma once

#include <functional>

namespace peri {

// While one lives, stop_asked() of this thread asks `stop`, which outlives it; one without a question leaves the outer.
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
// Whether anything could: work that nobody stops need not be cut into pieces.
bool may_stop();

}  // namespace peri
