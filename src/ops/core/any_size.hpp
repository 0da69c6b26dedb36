// Which inferred types hold at any size: then a region that was inferred with symbols is bound by putting numbers for
// them, and need not be inferred again.
#pragma once

#include "ir/graph.hpp"

namespace peri::ops {

// REQUIRES: the node's types were inferred. True if at every binding of their symbols inference accepts the node and
// gives these types and contents with the values put in: its dimensions are only passed on and agree as expressions,
// and nothing is computed from sizes. False: that is not known, and the bound node is to be inferred.
bool holds_at_any_size(const ir::Node& node);

}  // namespace peri::ops
