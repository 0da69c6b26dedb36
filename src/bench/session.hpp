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
  double tolerance = 0.25;                                     // allowed difference between samples, see why_unstable()
  bool layers = false;                                         // also time each step
  double load_ms = 0;                                          // time to open the engine, for the record
  std::function<void(const std::string& what)> progress = {};  // called several times a second, first before any run
  std::function<bool()> stop = {};                             // once true it returns the samples so far
};

// A record of one process: the first run, warm-up, samples. `tuned` is set by the caller. Errors are those of a run.
Result<Record> time_session(std::shared_ptr<const runtime::Engine> engine, std::span<const Tensor> inputs,
                            const SessionTerms& terms);

// What a step runs, as proofs name it: "gemm_f32@1 {}"; the first line of the payload of other executors; "": none.
std::string kernel_text(const plan::Step& step);

}  // namespace peri::bench
