// Times of a whole run on a device and of its steps, without counters: graphs of the first k steps, replayed in turn. A
// step's time is the difference of consecutive graphs, so that the times add up to the run.
#pragma once

#include <vector>

#include "bench/graph_clock.hpp"
#include "runtime/engine.hpp"

namespace peri::bench {

// The steps of a session's device in the order of the program, on one stream, at the sizes of its last run. Steps of
// the host are not included. REQUIRES: the session outlives it and is not used meanwhile.
class StepGraphs {
 public:
  // kRefused where no step runs on a device, or sizes depend on data.
  static Result<StepGraphs> open(runtime::Session& session);
  const std::vector<size_t>& steps() const { return steps_; }  // of the program
  Result<std::unique_ptr<device::Captured>> first(size_t count) const;
  Result<double> replay_ms(const device::Captured& graph) { return clock_.replay_ms(graph); }

 private:
  std::vector<size_t> steps_;
  std::vector<runtime::DeviceStep> work_;
  GraphClock clock_;
};

struct StepTimes {
  std::vector<size_t> steps;  // of the program
  std::vector<double> ms;     // of each: a difference, possibly negative due to noise
  std::vector<int64_t> work;  // of each: launches and copies
  double run_ms = 0;          // of the graph of all
  int64_t rounds = 0;
};
// Medians over rounds, at least 5, while `seconds` last.
Result<StepTimes> time_steps(runtime::Session& session, double seconds);

// Whole runs of two sessions of the same device, alternating.
struct Contest {
  double first_ms = 0, second_ms = 0;     // medians
  int64_t rounds = 0, second_faster = 0;  // of these
};
Result<Contest> time_in_turn(runtime::Session& first, runtime::Session& second, double seconds);

}  // namespace peri::bench
