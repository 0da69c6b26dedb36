// The time of a step on a device: the cost of one more launch in a chain of launches of one graph, so that neither the
// launch of the graph nor the clock's resolution matters.
#pragma once

#include "runtime/engine.hpp"
#include "tune/evidence.hpp"

namespace peri::tune {

constexpr int kShortChain = 10, kLongChain = 30;  // 20 launches apart: clock resolution counts for a twentieth

struct ChainTerms {
  std::vector<bool> weights;  // per argument of the step
  // Whether weights are read from memory: each launch of a chain then reads other ones, twice as many as the last cache
  // holds, which is flushed before the chain. Activations are those of the previous launch.
  bool cold_weights = false;
  double budget_ms = 20;
  double best_ms = -1;       // of another candidate: one that is far slower is timed briefly; -1: there is none
  int64_t least_rounds = 3;  // each of a short chain and a long one, alternating
};

// Medians of the rounds. REQUIRES: the step ran, and nothing is enqueued.
Status time_chains(const runtime::DeviceStep& step, const ChainTerms& terms, Evidence* evidence);

}  // namespace peri::tune
