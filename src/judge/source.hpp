// The graph an engine was made of: its "source" section with the weights put back by content hash.
#pragma once

#include "ir/graph.hpp"
#include "plan/engine_file.hpp"

namespace peri::cli {

// Errors: kInvalid if the section is missing, does not parse or names a weight that the engine lacks. Tensors are views
// of the engine's mapped file and keep it.
Result<ir::Graph> source_graph(const plan::LoadedEngine& engine);

}  // namespace peri::cli
