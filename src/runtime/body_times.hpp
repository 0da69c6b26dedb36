// How often the steps of bodies ran and how long that took, summed over all sessions of an engine.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "plan/program.hpp"

namespace peri::runtime {

struct StepTime {
  int64_t runs = 0, ns = 0;  // ns: of all runs together, with what the step's own bodies took
};

// Thread-safe. A body is named by the address that Step::bodies holds.
class BodyTimes {
 public:
  void add(const plan::Program& body, size_t step, int64_t ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<StepTime>& of = times_[&body];
    of.resize(body.steps.size());
    of[step].runs += 1;
    of[step].ns += ns;
  }
  // One for each step of the body; zeros where it never ran.
  std::vector<StepTime> of(const plan::Program& body) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = times_.find(&body);
    return at == times_.end() ? std::vector<StepTime>(body.steps.size()) : at->second;
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    times_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::map<const plan::Program*, std::vector<StepTime>> times_;
};

}  // namespace peri::runtime
