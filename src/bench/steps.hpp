// The time of each step of a session.
#pragma once

#include <vector>

#include "runtime/engine.hpp"

namespace peri::bench {

// Times of each step in each run. A stall in a few runs does not change the median.
class StepSamples {
 public:
  explicit StepSamples(size_t steps) : now_(steps, 0), of_runs_(steps) {}
  void add(size_t step, double ms) { now_[step] += ms; }  // adds to its time in the current run; a step may run twice
  void end_run();
  void clear();  // discards the current run
  size_t runs() const { return of_runs_.empty() ? 0 : of_runs_[0].size(); }
  double median_ms(size_t step) const;  // 0: it never ran

 private:
  std::vector<double> now_;
  std::vector<std::vector<double>> of_runs_;
};

// Runs the session for about `seconds`, at least three times, and computes each step's time in a run in ms, the median
// of the runs; returns their number. The hook's own cost (two clock readings per step, about 50 ns) is included.
Result<int64_t> time_steps(runtime::Session& session, std::span<const Tensor> inputs, double seconds,
                           std::vector<double>* step_ms);

}  // namespace peri::bench
