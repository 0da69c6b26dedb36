// The element-wise end of every kernel as text: what is done with one element of the result, from block code.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Text of a function that stores element `i` (row-major) of all results:
//   anchor of the region (is_anchor):  peri_finish(PERI_INDEX i, float v, PERI_PARAMETERS), v the anchor's element,
//                                      in the register type of its dtype; then the chain behind it
//   element-wise region:               peri_finish(PERI_INDEX i, PERI_PARAMETERS)
// Refuses chains and types that block code do not know, and other layouts than row-major.
Result<std::string> finish_text(const Problem& problem, bool is_anchor, Signature* signature);

// The same with the results in the layout that the region states: `i` counts in its order. Operands of the same rank
// stand in it too, or are row-major; the anchor's own are the caller's.
Result<std::string> finish_any_text(const Problem& problem, bool is_anchor, Signature* signature);
// For an element-wise region: the same, and where `eight` is true
//   peri_finish_8(PERI_INDEX i, PERI_PARAMETERS)   elements i to i + 7, i a multiple of 8 below a count that is one
// which reads and writes 16 bytes at a time. REQUIRES Signature::aligned() at run time then.
struct RegionText {
  std::string text;
  bool eight = false;
};
Result<RegionText> region_text(const Problem& problem, Signature* signature);
// For an anchor whose result is a float: the same as finish_any_text, and, for a `width` of 2 or 8,
//   peri_finish_8(PERI_INDEX i, float* v, PERI_PARAMETERS)   elements i to i + 7, i a multiple of 8
// which reads and writes them in one access where the region lets it. REQUIRES every address a multiple of 16 then.
Result<std::string> finish_wide_text(const Problem& problem, int width, Signature* signature);

// The text of width 8, and the same in two steps, so that reads are under way together:
//   peri_hold_8(peri_held* held, PERI_INDEX i, PERI_PARAMETERS)                         reads what i to i + 7 need
//   peri_finish_held_8(const peri_held* held, PERI_INDEX i, float* v, PERI_PARAMETERS)
// PERI_HELD: how many units of 16 bytes that is; of none peri_hold_8 does nothing.
Result<std::string> finish_held_text(const Problem& problem, Signature* signature);
// For a finish of another's making, which holds nothing.
std::string nothing_held_text();

}  // namespace peri::kernels::cuda
