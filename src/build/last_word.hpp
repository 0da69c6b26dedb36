// Close choices of device steps are settled in the whole program: where two candidates are close, the real graph is
// timed with each of them alternately, and the faster one is kept. The measured time of the graph is recorded beside
// the predicted one.
#pragma once

#include "build/build.hpp"

namespace peri::build {

// Settles close choices of `built`, the result of `compilation` under `refused`: a candidate that lost in the graph is
// added there. Does nothing where no step runs on a device or nothing was measured; an interrupt ends it with the best
// so far. Opens the devices that it needs. Errors: those of creating and running engines.
Status settle_in_graph(compile::Compilation* compilation, runtime::EngineOptions* engines,
                       lower::RefusedChoices* refused, Built* built);

// A member of the proof; nothing where it was not timed.
void write_whole_graph(JsonWriter& w, const WholeGraph& whole);

}  // namespace peri::build
