// Nodes that only move elements (transpose, slice, expand, split, concat, a change of layout) as strided copies, for
// any device.
#pragma once

#include <vector>

#include "kernels/entry.hpp"
#include "kernels/match/copy_shape.hpp"

namespace peri::kernels {

// One strided copy between an input and an output of the region.
struct Copy {
  const ir::Value* from = nullptr;
  size_t output = 0;
  CopyShape shape;
};
// The copies of a region of one such node. Each writes other elements; empty ones of concat and split are omitted.
Result<std::vector<Copy>> read_copies(const Problem& problem);

}  // namespace peri::kernels
