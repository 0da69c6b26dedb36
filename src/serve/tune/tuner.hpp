// Tuner: chooses batch size and delay of a version that is being loaded: from the file of an earlier search beside it,
// or by a search now, which writes one.
#pragma once

#include "serve/repository/repository.hpp"
#include "serve/tune/search.hpp"

namespace peri::serve {

// Median times of runs of one row and more, to about `sizes`. `row`: a request of one row.
Result<RunTimes> run_times(runtime::Servable& model, const std::vector<Tensor>& row, std::span<const int64_t> sizes);
// Measures a model behind a queue of its own: Poisson arrivals of one row for so many seconds, latency from when each
// was due.
Measure measure_on(std::shared_ptr<runtime::Servable> model, std::vector<Tensor> row, ModelOptions options,
                   double seconds, uint64_t seed, std::function<bool()> stop);

struct TunerOptions {
  std::optional<Objective> objective;  // none: what was kept is used, and nothing is searched
  double seconds = 0.7;                // of a measurement; up to 18 of them for a model
  std::string machine;                 // its processors, by name and number
  std::function<bool()> stop;          // may be null
  std::function<void(const std::string&)> say;
};

class Tuner {
 public:
  explicit Tuner(TunerOptions options) : options_(std::move(options)) {}
  // For RepositoryOptions::settle. `options`: what the configuration asks for; changed to what was found. What goes
  // wrong is said and leaves it as it was: a model is served all the same.
  void settle(const std::string& folder, const LoadOrder& order, const Loaded& loaded, ModelOptions* options) const;

 private:
  Result<KeptTuning> search(const LoadOrder& order, const Loaded& loaded, const ModelOptions& options) const;
  void say(const LoadOrder& order, const std::string& what) const;
  const TunerOptions options_;
};

}  // namespace peri::serve
