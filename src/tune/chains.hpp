// The time of a step on a device: the cost of one more launch in a chain of launches of one graph, so that neither the
// launch of the graph nor the clock's resolution matters.
#pragma once

#include "runtime/engine.hpp"
#include "tune/evidence.hpp"

namespace peri::tune {

constexpr int kShortChain = 10, kLongChain = 30;  // 20 launches between: a clock's grain counts for a twentieth

struct ChainTerms {
  std::vector<bool> weights;  // per argument of the step
  // Whether weights are read from memory: each launch of a chain then reads others, as many as twice the last cache
  // holds, which is emptied before the chain. Activations are those of the launch before.
  bool cold_weights = false;
  double budget_ms = 20;
  double best_ms = -1;       // of another candidate: what is slower by far is timed briefly; -1: there is none
  int64_t least_rounds = 3;  // each of a short chain and a long one, in turn
};

// Medians of the rounds. REQUIRES: the step ran, and nothing is enqueued.
Status time_chains(const runtime::DeviceStep& step, const ChainTerms& terms, Evidence* evidence);

}  // namespace peri::tune
