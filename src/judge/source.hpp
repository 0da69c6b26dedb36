// The graph that an engine was made from: its "source" section with the weights restored by content hash.
#pragma once

#include "ir/graph.hpp"
#include "runtime/engine.hpp"

namespace peri::judge {

// Errors: kInvalid if the section is missing, does not parse or names a weight that the engine lacks. Weights are views
// of the engine's memory and keep it.
Result<ir::Graph> source_graph(const runtime::Engine& engine);

}  // namespace peri::judge
