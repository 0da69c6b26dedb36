// What only moves elements (transpose, slice, expand, split, concat, a change of layout) as strided copies, whatever
// device runs them.
#pragma once

#include <vector>

#include "kernels/cpu/move/copy.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {

// One strided copy between an input and an output of the region.
struct Copy {
  const ir::Value* from = nullptr;
  size_t output = 0;
  cpu::move::CopyShape shape;
};
// Those of a region of one such node. Each copy's result reaches other elements; empty ones are left out of concat and
// split.
Result<std::vector<Copy>> read_copies(const Problem& problem);

}  // namespace peri::kernels
