// The least memory of a run, known from the possible parts of a cover before any of them is tried.
#pragma once

#include "lower/parts.hpp"

namespace peri::lower {

// The inputs and outputs of the graph, and what the largest piece of it takes: whatever cover is chosen, one of the
// parts with that piece holds what it reads, or what it writes where it may overwrite that. No cover takes less, most
// take more. Weights are not counted, nor are values whose sizes are unknown at `sizes`.
double least_bytes(const ir::Graph& graph, const Parts& parts, const DimBinding& sizes);

}  // namespace peri::lower
