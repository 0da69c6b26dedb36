// The element-wise end of every kernel as text: what is done with one element of the result, from a block program.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Text of a function that stores element `i` (row-major) of all results:
//   anchor of the region (is_anchor):  peri_finish(PERI_INDEX i, float v, PERI_PARAMETERS), v the anchor's element,
//                                      in the register type of its dtype; then the chain behind it
//   element-wise region:               peri_finish(PERI_INDEX i, PERI_PARAMETERS)
// Refuses chains and types that block programs do not know, and other layouts than row-major.
Result<std::string> finish_text(const Problem& problem, bool is_anchor, Signature* signature);

}  // namespace peri::kernels::cuda
