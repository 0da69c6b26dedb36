// Building: a model becomes an engine that was judged as a whole. A choice that is wrong in the engine is refused and
// made again, until the engine is right.
#pragma once

#include "compile/compile.hpp"
#include "judge/engine.hpp"

namespace peri::build {

struct Options {
  compile::Options compile;
  bool judge = true;  // false: the engine is not run; the proof says so
  runtime::ExecutorTable executors;
};

// A choice that a judge of the engine refused.
struct Refused {
  std::string name, key, candidate, why;
};

struct Built {
  compile::Compiled compiled;
  judge::EngineVerdict verdict;  // no sizes: it was not judged
  std::vector<Refused> refused;
};

// Errors: those of compile(); kAccuracy if the engine's answer is wrong and no other choice is left; kRefused if a lock
// asks for a choice that is wrong. An interrupt (options.compile.tune.stop) gives the best so far, not judged.
Result<Built> build_engine(const Options& options);
// The same of a model at hand.
Result<Built> build_engine(const Options& options, compile::Imported model);

// Capabilities and executors of this machine and program, for engines of our own.
runtime::EngineOptions engine_options(runtime::ExecutorTable executors, int threads);

}  // namespace peri::build
