// Layouts of images on a GPU: row-major, or with channels last.
#pragma once

#include "kernels/entry.hpp"

namespace peri::kernels::cuda {

// The axis order 0, 2, 3, ..., 1.
ir::Layout channels_last(size_t rank);

// A problem's graph with the anchor's image in layout `image`, and its result and all other activations of the result's
// rank in `result`; also recorded in the offer. Weights stay row-major.
ir::Graph with_layouts(const Problem& problem, const ir::Layout& image, const ir::Layout& result, Offer* offer);

}  // namespace peri::kernels::cuda
