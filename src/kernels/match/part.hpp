// A part of a region as a separate graph, for kernels that execute one part after the other.
#pragma once

#include <span>

#include "ir/graph.hpp"

namespace peri::kernels {

// Nodes [begin, end) of a region with all of its inputs, in order, then `middle` (null: none), the result of an earlier
// part. The only output is `result`. Layouts are not copied.
ir::Graph part_of(const ir::Graph& region, size_t begin, size_t end, const ir::Value* middle, const ir::Value* result);
// The same with several results, in this order.
ir::Graph part_of(const ir::Graph& region, size_t begin, size_t end, const ir::Value* middle,
                  std::span<const ir::Value* const> results);
// The same of some nodes, in the region's order, that need not be neighbours.
ir::Graph part_of(const ir::Graph& region, std::span<const ir::Node* const> nodes, const ir::Value* middle,
                  std::span<const ir::Value* const> results);

}  // namespace peri::kernels
