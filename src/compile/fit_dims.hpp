// Sizes that the weights determine: where a node fails at the sizes tried, the sizes it requires are searched for, so
// that a model with named channels builds without being given their number.
#pragma once

#include <functional>
#include <set>

#include "ir/graph.hpp"

namespace peri::compile {

// Sizes equal to `sizes` for names in `fixed`, and otherwise such that more of the graph's nodes are valid: all of
// them, if such sizes were found. `check` tests candidates: Ok, or the error of the first invalid node.
DimBinding fit_dims(const ir::Graph& graph, DimBinding sizes, const std::set<std::string>& fixed,
                    const std::function<Status(const DimBinding&)>& check);

}  // namespace peri::compile
