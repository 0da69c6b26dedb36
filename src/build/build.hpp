// Builds a model into an engine that is judged as a whole. A choice that is wrong in the engine is refused and
// replaced, until the engine is right.
#pragma once

#include "compile/compile.hpp"
#include "judge/engine.hpp"

namespace peri::build {

struct Options {
  compile::Options compile;
  bool judge = true;  // false: the engine is not run; the proof says so
  runtime::ExecutorTable executors;
  int64_t max_iterations = 0;  // of a loop, where the build runs it; 0: not given
};

// A choice that a judge of the engine refused.
struct Refused {
  std::string name, key, candidate, why;
};

// The measured time of the whole graph of a device's steps, and the close choices that it settled.
struct WholeGraph {
  struct Swap {
    std::string name, key, chosen, instead;
    double chosen_ms = 0, instead_ms = 0;  // of the whole graph
    bool kept = false;                     // the other candidate is in the engine
  };
  struct Off {
    std::string name, chosen;
    double predicted_ms = 0, measured_ms = 0;
  };
  bool timed = false;
  double predicted_ms = 0, measured_ms = 0, seconds = 0;
  int64_t rounds = 0;
  std::vector<Swap> swaps;
  std::vector<Off> off;  // steps whose predicted and measured times differ most
};

struct Built {
  compile::Compiled compiled;
  judge::EngineVerdict verdict;  // no sizes: not judged
  // Where there is no judge, or the model is too large for it: "" it ran once at its tuned size, else why it did not;
  // none: not tried.
  std::optional<std::string> unjudged_run = {};
  // Where it ran on made-up integers of one value alone because others leave a table: which, and the size that fits.
  std::string index_limit = {};
  std::vector<Refused> refused;
  WholeGraph whole;
  double seconds = 0;  // wall time of all rounds of choosing and judging, and of writing files
};

// Errors: those of compile(); kAccuracy if the engine's result is wrong and no other choice is left; kRefused if a lock
// contains a choice that is wrong. An interrupt (options.compile.tune.stop) gives the best engine so far, not judged.
Result<Built> build_engine(const Options& options);
// The same for an imported model.
Result<Built> build_engine(const Options& options, compile::Imported model);

// Whether an engine that is not judged at its tuned size is run there once: only if that takes at most about a minute.
bool is_run_once(double flops, double predicted_ms);

// Opens the devices of a program that `engines` does not have yet.
Status open_devices(const plan::Program& program, runtime::EngineOptions* engines);

// Capabilities and executors of this machine and program, for internal engines.
runtime::EngineOptions engine_options(runtime::ExecutorTable executors, int threads);

}  // namespace peri::build
