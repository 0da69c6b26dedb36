// Timed runs of an engine: the measurement of `peri bench` and of the library's bench within one process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/record.hpp"
#include "runtime/engine.hpp"

namespace peri::bench {

struct SessionTerms {
  int threads = 1;
  double seconds = 3;            // to sample for
  double warm_up_seconds = 0.3;  // before that
  int64_t max_samples = 100000;
  double tolerance = 0.25;                                     // what samples may disagree by, see why_unstable()
  bool layers = false;                                         // also time each step
  double load_ms = 0;                                          // that opening the engine took, for the record
  std::function<void(const std::string& what)> progress = {};  // several times a second, the first before any run
  std::function<bool()> stop = {};                             // once true it ends with the samples so far
};

// A record of one process: the first run, warm-up, samples. `tuned` is left to the caller. Errors are those of a run.
Result<Record> time_session(std::shared_ptr<const runtime::Engine> engine, std::span<const Tensor> inputs,
                            const SessionTerms& terms);

}  // namespace peri::bench
