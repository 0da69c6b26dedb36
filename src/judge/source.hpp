// The graph that an engine was made from: its "source" section with the weights restored by content hash.
#pragma once

#include <optional>

#include "ir/graph.hpp"
#include "runtime/engine.hpp"

namespace peri::judge {

// Errors: kInvalid if the section is missing, does not parse or names a weight that the engine lacks. Weights are views
// of the engine's memory and keep it.
Result<ir::Graph> source_graph(const runtime::Engine& engine);

// The same with weights of any values, for what shapes and small constants tell: constants of up to
// ir::PrintOptions::inline_limit elements are the engine's own, longer ones of integers zeros. None where it cannot be
// read.
std::optional<ir::Graph> source_shapes(const plan::Program& program);

}  // namespace peri::judge
