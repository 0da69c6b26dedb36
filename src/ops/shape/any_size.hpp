// Which inferred types are valid at any size: a region inferred with symbols is then bound by substituting numbers for
// them, without inferring it again.
#pragma once

#include <span>

#include "ir/graph.hpp"

namespace peri::ops {

// REQUIRES: the node's types were inferred. True if for every binding of their symbols inference accepts the node and
// gives these types and contents with the values substituted: its dimensions are only copied and agree as expressions,
// and nothing is computed from sizes. False: not known, and the bound node must be inferred.
bool holds_at_any_size(const ir::Node& node);

// Rules that ops use as OpDef::any_size; a rule of a single op is in its file.
const Shape& shape_of(const ir::Value* value);
// Broadcasts to `to` at any size: each dimension is 1 or, as an expression, that of `to`.
bool aligned(const Shape& from, std::span<const Dim> to);
// The output has the shape of the single input, or a permutation of it.
bool any_size_of_one_input(const ir::Node& node);
// Scale and bias broadcast to the data.
bool any_size_of_norm(const ir::Node& node);
// Windows, channels and weights are numbers; the first dimension, the batch, is copied.
bool any_size_of_batch(const ir::Node& node);
// The axes are known.
bool any_size_of_reduction(const ir::Node& node);

}  // namespace peri::ops
