// Close choices of device steps are settled in the whole program: where two candidates are close, the real graph is
// timed with each of them in turn, and the faster one stays. The measured time of the graph is recorded beside the
// predicted one.
#pragma once

#include "build/build.hpp"

namespace peri::build {

// Settles close choices of `built`, which holds what `compilation` made under `refused`: a candidate that lost in the
// graph is added there. Nothing where no step runs on a device or nothing was measured; an interrupt ends it with the
// best so far. Opens what devices it needs. Errors: those of making and running engines.
Status settle_in_graph(compile::Compilation* compilation, runtime::EngineOptions* engines,
                       lower::RefusedChoices* refused, Built* built);

// As a member of the proof; nothing where it was not timed.
void write_whole_graph(JsonWriter& w, const WholeGraph& whole);

}  // namespace peri::build
