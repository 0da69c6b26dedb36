// Generated inputs hold the categories that a model's encoders know.
#pragma once

#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::tune {

// Replaces elements of a graph's inputs that reach an op with OpDef::categories, through ops that move, convert or
// select elements, by elements that this op knows: all of them where others are an error, else three of four. Inputs
// are left as they are where that cannot be followed. The graph is inferred; its sizes may be symbols.
void choose_categories(const ir::Graph& graph, uint64_t seed, std::vector<Tensor>* inputs);

// Whether the text of a graph names such an op.
bool names_categories(std::string_view graph_text);

}  // namespace peri::tune
