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
  int64_t max_iterations = int64_t{1} << 31;  // of a loop, where the build runs it
};

// A choice that a judge of the engine refused.
struct Refused {
  std::string name, key, candidate, why;
};

// What the whole graph of a device's steps took, and which close choices it settled.
struct WholeGraph {
  struct Swap {
    std::string name, key, chosen, instead;
    double chosen_ms = 0, instead_ms = 0;  // of the whole graph
    bool kept = false;                     // the other stands in the engine
  };
  struct Off {
    std::string name, chosen;
    double predicted_ms = 0, measured_ms = 0;
  };
  bool timed = false;
  double predicted_ms = 0, measured_ms = 0, seconds = 0;
  int64_t rounds = 0;
  std::vector<Swap> swaps;
  std::vector<Off> off;  // steps, where predicted and measured are further apart than a fifth
};

struct Built {
  compile::Compiled compiled;
  judge::EngineVerdict verdict;  // no sizes: it was not judged
  // Without a judge, or beyond what he judges: "" it ran once at its tuned size, else why it did not; none: that was
  // not tried.
  std::optional<std::string> unjudged_run = {};
  std::vector<Refused> refused;
  WholeGraph whole;
  double seconds = 0;  // by the clock, all rounds of choosing and judging, and the files if any were written
};

// Errors: those of compile(); kAccuracy if the engine's answer is wrong and no other choice is left; kRefused if a lock
// asks for a choice that is wrong. An interrupt (options.compile.tune.stop) gives the best so far, not judged.
Result<Built> build_engine(const Options& options);
// The same of a model at hand.
Result<Built> build_engine(const Options& options, compile::Imported model);

// Whether an engine that is not judged at its tuned size is run there: one run of at most a minute is waited for.
bool is_run_once(double flops, double predicted_ms);

// Opens the devices of a program that are not among those of `engines` yet.
Status open_devices(const plan::Program& program, runtime::EngineOptions* engines);

// Capabilities and executors of this machine and program, for engines of our own.
runtime::EngineOptions engine_options(runtime::ExecutorTable executors, int threads);

}  // namespace peri::build
