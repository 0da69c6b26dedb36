// Kernels that do the same for each element of a result: the loop, and the position of an element in a broadcast
// operand.
#pragma once

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Statements that compute the coordinates c0, c1, ... of element `i` of a dense tensor of these dims.
std::string coordinates_text(const std::vector<int64_t>& dims, Signature* signature);
// The position, by these coordinates, in a dense tensor of `shape` broadcast to `dims`. Refuses shapes that do not
// broadcast.
Result<std::string> place_text(const std::vector<int64_t>& shape, const std::vector<int64_t>& dims,
                               Signature* signature);
// A kernel that runs `body` for each `PERI_INDEX i` below `count`; with `width` > 1 for each multiple of it.
std::string each_text(std::string_view entry, const std::string& count, const std::string& body, int width = 1);

// The launch of such a kernel for `count` elements; none for zero elements.
std::vector<KernelLaunch> each_launch(const Problem& problem, const Signature& signature, std::string_view entry,
                                      int64_t count, const std::string& text, int width = 1);

}  // namespace peri::kernels::cuda
