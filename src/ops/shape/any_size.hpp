// Which inferred types hold at any size: then a region that was inferred with symbols is bound by putting numbers for
// them, and need not be inferred again.
#pragma once

#include <span>

#include "ir/graph.hpp"

namespace peri::ops {

// REQUIRES: the node's types were inferred. True if at every binding of their symbols inference accepts the node and
// gives these types and contents with the values put in: its dimensions are only passed on and agree as expressions,
// and nothing is computed from sizes. False: that is not known, and the bound node is to be inferred.
bool holds_at_any_size(const ir::Node& node);

// What ops state as OpDef::any_size; a rule that one op has alone stands in its file.
const Shape& shape_of(const ir::Value* value);
// Broadcasts to `to` at any size: each dimension is 1 or, as an expression, that of `to`.
bool aligned(const Shape& from, std::span<const Dim> to);
// The output has the shape of the one input, or is a permutation of it.
bool any_size_of_one_input(const ir::Node& node);
// Scale and bias broadcast to the data.
bool any_size_of_norm(const ir::Node& node);
// Windows, channels and weights are numbers; the first dimension, that of the batch, is passed on.
bool any_size_of_batch(const ir::Node& node);
// The axes are known.
bool any_size_of_reduction(const ir::Node& node);

}  // namespace peri::ops
