// An element-wise region as block code: the instruction for each op, and the strides of each input in a layout.
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
// Refuses ops and types without an instruction, and regions whose outputs differ in shape.
Result<Translated> translate(const Problem& problem);

// The iteration space of the region with its outputs in `layout`. Activations of full rank are in `layout` too, all
// else is row-major.
Result<Space> space_of(const Problem& problem, const Translated& t, const ir::Layout& layout);

}  // namespace peri::kernels::block
