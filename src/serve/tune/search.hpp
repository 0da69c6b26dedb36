// The search for batch size and delay: candidates are ranked on a simulated server, whose runs take what runs were seen
// to take, and the first of them are measured. The best takes the largest rate within the objective.
#pragma once

#include <functional>
#include <map>

#include "serve/queue/scheduler.hpp"
#include "serve/tune/objective.hpp"
#include "stats/histogram.hpp"

namespace peri::serve {

// How long a run of so many rows takes; between sizes seen, by a straight line.
using RunTimes = std::map<int64_t, int64_t>;
int64_t run_ns(const RunTimes& times, int64_t rows);

// What requests of one row at a rate see.
struct Seen {
  stats::Histogram latency;
  bool kept_up = true;  // none was refused; a simulation ends with the first that is
};
// A server in simulated time: Poisson arrivals, the real scheduler, `slots` runs at once.
Seen simulate(const QueuePolicy& policy, const RunTimes& times, int slots, double per_second, int64_t requests,
              uint64_t seed);

using Measure = std::function<Result<Seen>(const BatchSettings& settings, double per_second)>;

// The largest rate at which `measure` finds the objective met, near `start`. 0: at none that was tried.
Result<TunedPoint> largest_rate(const Objective& objective, const BatchSettings& settings, double start, int steps,
                                const Measure& measure);
// The policy of a model with these settings in place of its own.
QueuePolicy with_settings(QueuePolicy policy, const BatchSettings& settings);

struct Search {
  Objective objective;
  QueuePolicy policy;  // with every size that a batch may have
  RunTimes times;
  int slots = 1;
  int measured = 3;  // candidates that are measured
  uint64_t seed = 1;
};
// A queue that is longer is taken for a server that does not keep up: what four times the objective could answer, at
// most 4096.
int64_t longest_queue(const Search& search);
// Best first. Errors: kRefused: nothing meets the objective, with the time of a single request.
Result<std::vector<TunedPoint>> find_settings(const Search& search, const Measure& measure);

}  // namespace peri::serve
