// The dimensions along which a graph joins an input to other values: a decoder joins its past, of which there is none
// at its first step, so that such a dimension may be 0.
#pragma once

#include <set>
#include <string>

#include "ir/graph.hpp"

namespace peri::onnx {

// Those that are names, taken to be at least 1 so far. The graph is imported, its types are inferred.
std::set<std::string, std::less<>> joined_sizes(const ir::Graph& graph);

}  // namespace peri::onnx
