// Kernels that do the same for each element of a result: the loop, and where an element lies in what is broadcast.
#pragma once

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Statements that give the coordinates c0, c1, ... of element `i` of a dense tensor of these dims.
std::string coordinates_text(const std::vector<int64_t>& dims, Signature* signature);
// The place, by these coordinates, in a dense tensor of `shape` that is broadcast to `dims`. Refuses what does not fit.
Result<std::string> place_text(const std::vector<int64_t>& shape, const std::vector<int64_t>& dims,
                               Signature* signature);
// A kernel that runs `body` for each `PERI_INDEX i` below `count`, a multiple of `width`, or for each that is one.
std::string each_text(std::string_view entry, const std::string& count, const std::string& body, int width = 1);

// The launch of such a kernel for `count` elements; none for no elements.
std::vector<KernelLaunch> each_launch(const Problem& problem, const Signature& signature, std::string_view entry,
                                      int64_t count, const std::string& text, int width = 1);

}  // namespace peri::kernels::cuda
