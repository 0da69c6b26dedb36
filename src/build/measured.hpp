// Measured times of the steps of an engine within its runs on a device, each beside its time alone and its floors.
#pragma once

#include "base/json.hpp"
#include "compile/compile.hpp"
#include "runtime/engine.hpp"

namespace peri::build {

// What a build knew about a step.
struct KnownStep {
  double alone_ms = -1;  // time measured by the tuner; -1: not measured
  tune::RegionWork work = {};
};
// One for each step of the program, from the build or from its proof; what a proof lacks is not known.
std::vector<KnownStep> known_steps(const compile::Compiled& compiled);
std::vector<KnownStep> known_steps(const Json& proof);

struct MeasuredStep {
  std::string name, chosen;
  double ms = 0;         // within the run: a difference of graphs, possibly negative due to noise
  int64_t launches = 0;  // launches and copies
  KnownStep known;
  // Lower bounds with all data in the device's last-level cache and in its memory; 0: unknown.
  double floor_warm_ms = 0, floor_cold_ms = 0;
};
struct MeasuredSteps {
  std::string model;
  double run_ms = 0;  // of the graph of all steps
  int64_t rounds = 0;
  std::vector<MeasuredStep> steps;  // those on the device, in the order of the run

  std::string text() const;  // one line
  std::string json() const;  // the object of `peri explain --measured --json`
};

// Runs the engine once on seeded inputs of these sizes, and times captures of its first n steps in alternation for
// about 2 seconds: a step's time is the difference of consecutive n. `known`: as from known_steps(), or shorter.
// Errors: kRefused where no step runs on a device or sizes depend on data; those of a run.
Result<MeasuredSteps> measure_steps(const std::shared_ptr<const runtime::Engine>& engine, const DimBinding& dims,
                                    const std::vector<KnownStep>& known);

}  // namespace peri::build
