// Rules on nodes that only rename or move axes: chains of reshapes and of transposes become one or none.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// A view that may change dimensions (identity does not): the same elements in the same order.
bool is_reshape_like(const ir::Node& n);

// One node: a reshape to the shape its input has goes; a reshape of a reshape reads the first one's input; a transpose
// of a transpose is composed, one that moves nothing goes, one that only moves axes of one element is a reshape.
Result<bool> merge_views(Rewriter& w, ir::Node* n);

// How a reshape from `from` to `to` cuts both into runs of axes with the same number of elements, as fine as can be
// seen. Axes of one element of `from` belong to no run. None: no such cut is seen.
struct Run {
  std::vector<size_t> from, to;
};
std::optional<std::vector<Run>> runs_of(const Shape& from, const Shape& to);

}  // namespace peri::passes
