// Tuner: chooses batch size and delay of a version that is being loaded, from the stored result of an earlier search,
// or by a new search, whose result it stores.
#pragma once

#include "base/thread_pool.hpp"
#include "serve/repository/repository.hpp"
#include "serve/tune/search.hpp"

namespace peri::serve {

// The median time in ns of a few runs, after one that is not timed: the timing loop of a module above this one. Ends
// early with what it has once `stop` returns true.
using TimeRuns = std::function<Result<int64_t>(FunctionRef<Status()> run, const std::function<bool()>& stop)>;
// Median run times by number of rows, for about the given `sizes`. `row`: a request of one row.
Result<RunTimes> run_times(runtime::Servable& model, const std::vector<Tensor>& row, std::span<const int64_t> sizes,
                           const TimeRuns& time_runs);
// Measures a model with its own queue: Poisson arrivals of single rows for this many seconds; latency is counted from
// the due time.
Measure measure_on(std::shared_ptr<runtime::Servable> model, std::vector<Tensor> row, ModelOptions options,
                   double seconds, uint64_t seed, std::function<bool()> stop);

struct TunerOptions {
  std::optional<Objective> objective;  // none: a stored result is used, without a search
  double seconds = 0.7;                // of one measurement; up to 18 per model
  std::string machine;                 // its processors, by name and number
  TimeRuns time_runs;                  // set where there is an objective
  std::function<bool()> stop;          // polled; may be null
  std::function<void(const std::string&)> say;
};

class Tuner {
 public:
  explicit Tuner(TunerOptions options) : options_(std::move(options)) {}
  // For RepositoryOptions::settle. `options`: from the configuration; receives the found settings. Failures are
  // reported and leave it unchanged: the model is served anyway.
  void settle(const std::string& folder, const LoadOrder& order, const Loaded& loaded, ModelOptions* options) const;

 private:
  Result<KeptTuning> search(const LoadOrder& order, const Loaded& loaded, const ModelOptions& options) const;
  void say(const LoadOrder& order, const std::string& what) const;
  const TunerOptions options_;
};

}  // namespace peri::serve
