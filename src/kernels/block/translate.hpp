// An element-wise region as block code: which op becomes which instruction, and how each input is read in a
// layout.
#pragma once

#include "kernels/block/code.hpp"
#include "kernels/block/space.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels::block {

struct Translated {
  Code program;
  std::vector<int> arguments;   // graph input of each program input
  std::vector<Tensor> inlined;  // per program input: a small constant of the region; undefined if it is a graph input
};
// Refuses ops and types it has no instruction for, and regions whose outputs differ in shape.
Result<Translated> translate(const Problem& problem);

// The iteration space of the region with its outputs in `layout`. Activations of full rank stand in `layout` too, all
// else row-major.
Result<Space> space_of(const Problem& problem, const Translated& t, const ir::Layout& layout);

}  // namespace peri::kernels::block
