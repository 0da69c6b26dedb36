// Searches batch size and delay: candidates are ranked by simulation with measured run times, and the first few are
// measured. The best sustains the largest rate within the objective.
#pragma once

#include <functional>
#include <map>

#include "serve/queue/scheduler.hpp"
#include "serve/tune/objective.hpp"
#include "stats/histogram.hpp"

namespace peri::serve {

// Run time by number of rows; linearly interpolated.
using RunTimes = std::map<int64_t, int64_t>;
int64_t run_ns(const RunTimes& times, int64_t rows);

// Latencies of requests of one row at a given rate.
struct Seen {
  stats::Histogram latency;
  bool kept_up = true;  // no request was refused; a simulation stops at the first refusal
};
// Simulates a server: Poisson arrivals, the real scheduler, `slots` concurrent runs.
Seen simulate(const QueuePolicy& policy, const RunTimes& times, int slots, double per_second, int64_t requests,
              uint64_t seed);

using Measure = std::function<Result<Seen>(const BatchSettings& settings, double per_second)>;

// The largest rate near `start` at which `measure` meets the objective; 0: none was found.
Result<TunedPoint> largest_rate(const Objective& objective, const BatchSettings& settings, double start, int steps,
                                const Measure& measure);
// A model's policy with these settings.
QueuePolicy with_settings(QueuePolicy policy, const BatchSettings& settings);

struct Search {
  Objective objective;
  QueuePolicy policy;  // with every permitted batch size
  RunTimes times;
  int slots = 1;
  int measured = 3;  // number of candidates to measure
  uint64_t seed = 1;
};
// A queue above this length means that the server does not keep up: what can be answered in four times the objective,
// at most 4096.
int64_t longest_queue(const Search& search);
// Best first. Errors: kRefused: no setting meets the objective; includes the time of a single request.
Result<std::vector<TunedPoint>> find_settings(const Search& search, const Measure& measure);

}  // namespace peri::serve
