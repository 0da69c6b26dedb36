// A part of a region as a graph of its own, for kernels that do one part after the other.
#pragma once

#include "ir/graph.hpp"

namespace peri::kernels {

// Nodes [begin, end) of a region with all of its inputs, in order, then `middle` (null: none), which an earlier part
// made. The only output is `result`. Layouts are left out.
ir::Graph part_of(const ir::Graph& region, size_t begin, size_t end, const ir::Value* middle, const ir::Value* result);

}  // namespace peri::kernels
