// Sizes that the weights determine: where a node fails at the sizes tried, the sizes it requires are searched for, so
// that a model with named channels builds without being given their number.
#pragma once

#include <functional>
#include <set>

#include "ir/graph.hpp"

namespace peri::compile {

// Sizes like `sizes` but those not in `fixed`, at which more of the graph's nodes agree: all of them, if such sizes
// were found. `check` is asked about candidates: Ok, or the error of the first node that does not agree.
DimBinding fit_dims(const ir::Graph& graph, DimBinding sizes, const std::set<std::string>& fixed,
                    const std::function<Status(const DimBinding&)>& check);

}  // namespace peri::compile
