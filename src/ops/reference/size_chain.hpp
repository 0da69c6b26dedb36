// The floats that a model computes sizes with: one rounding of them decides how many elements a value has.
#pragma once

#include <unordered_set>

#include "ir/graph.hpp"

namespace peri::ops {

// The float32 lists and scalars from which an integer of the same is cast. Each is rounded where it is computed, as
// float32 arithmetic does, also in an exact run: 10 * 0.7 is 7 in float32, and its floor 6 in float64.
std::unordered_set<const ir::Value*> size_chain(const ir::Graph& graph);

}  // namespace peri::ops
