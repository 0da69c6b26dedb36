// What only runs of the whole engine tell: how often the steps of bodies run, and the time of steps that nothing times
// alone, such as loops and those on the reference, or not at their sizes: those of which the data decide them.
#pragma once

#include "build/build.hpp"

namespace peri::build {

// The inputs of runs that nobody judges are the same in every build.
constexpr uint64_t kRunSeed = 11;

// Runs the engine at its tuned size on the inputs that peri bench makes up, a few times, and fills StepReport::in_run
// and predicted_ms from each step's median. Does nothing for an engine without such steps, one whose steps were not all
// measured as wanted (a lock, a budget that was over) or whose devices do not open, and where no run ends within some
// seconds: that is no error.
void time_in_runs(const compile::Compilation& compilation, const runtime::EngineOptions& engines, Built* built);

// Sum over the steps of a run at the tuned size, each as often as it runs; a step in a body that was not counted has no
// part in it.
double predicted_ms(const compile::Compiled& compiled);

}  // namespace peri::build
