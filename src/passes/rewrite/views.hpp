// Rules for nodes that only rename or move axes: chains of reshapes and of transposes become one node or none.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// A view that may change dimensions (not identity): the same elements in the same order.
bool is_reshape_like(const ir::Node& n);

// One node: a reshape to its input's own shape is removed; a reshape of a reshape reads the first one's input;
// transposes of transposes are composed; one that moves nothing is removed, one that only moves axes of one element
// becomes a reshape.
Result<bool> merge_views(Rewriter& w, ir::Node* n);

// Partition of the axes of a reshape from `from` to `to` into runs with the same number of elements on both sides, as
// fine as can be proven. Axes of one element of `from` belong to no run. None: no partition is found.
struct Run {
  std::vector<size_t> from, to;
};
std::optional<std::vector<Run>> runs_of(const Shape& from, const Shape& to);

}  // namespace peri::passes
