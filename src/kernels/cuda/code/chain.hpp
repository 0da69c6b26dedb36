// Source text of the element-wise epilogue of every kernel: what is done with one element of the result, from block
// code.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Text of a function that stores element `i` (row-major) of all results:
//   anchor of the region (is_anchor):  peri_finish(PERI_INDEX i, float v, PERI_PARAMETERS), v the anchor's element,
//                                      in the register type of its dtype; then the chain after it
//   element-wise region:               peri_finish(PERI_INDEX i, PERI_PARAMETERS)
// A byte_table behind the chain is part of it. Refuses chains and types that block code does not support, and other
// layouts than row-major.
// `last`: the node whose result v is, if not the anchor: one that reads nothing but the anchor's.
Result<std::string> finish_text(const Problem& problem, bool is_anchor, Signature* signature,
                                const ir::Node* last = nullptr);

// The same with the results in the layout of the region: `i` counts in its order. Operands of the same rank have it
// too, or are row-major; the anchor's own are handled by the caller.
Result<std::string> finish_any_text(const Problem& problem, bool is_anchor, Signature* signature);
// For an element-wise region: the same, and where `eight` is true
//   peri_finish_8(PERI_INDEX i, PERI_PARAMETERS)   elements i to i + 7, i a multiple of 8, as is the element count
// which reads and writes 16 bytes at a time and REQUIRES Signature::aligned() at run time.
struct RegionText {
  std::string text;
  bool eight = false;
};
Result<RegionText> region_text(const Problem& problem, Signature* signature);
// For an anchor: the same as finish_any_text, and, for a `width` of 2 or 8,
//   peri_finish_8(PERI_INDEX i, float* v, PERI_PARAMETERS)   elements i to i + 7, i a multiple of 8
// which reads and writes them in one access where the region allows it and REQUIRES every address a multiple of 16. Of
// an anchor whose result is an int or a byte `v` holds the bits of ints.
Result<std::string> finish_wide_text(const Problem& problem, int width, Signature* signature,
                                     const ir::Node* last = nullptr);

// The text of width 8, also for a region with several results of one layout, the anchor's own among them or not (all of
// the above refuse that), and the same in two steps, so that several reads are in flight at once:
//   peri_hold_8(peri_held* held, PERI_INDEX i, PERI_PARAMETERS)                         preloads operands of i to i + 7
//   peri_finish_held_8(const peri_held* held, PERI_INDEX i, float* v, PERI_PARAMETERS)
// PERI_HELD: size of peri_held in units of 16 bytes; if 0 peri_hold_8 does nothing.
Result<std::string> finish_held_text(const Problem& problem, Signature* signature, const ir::Node* last = nullptr);
// For a part of a region (part_of) whose only result is an element-wise chain of its last input, and of others:
//   NAME(PERI_INDEX row, PERI_INDEX k, v, PERI_PARAMETERS)   element `k` of a row of so many of the result, in the
//                                                            register type of its dtype, of element v of that input
Result<std::string> element_text(const Problem& part, const std::string& name, int64_t row_length,
                                 Signature* signature);
// For a finish generated elsewhere, which preloads nothing.
std::string nothing_held_text();

}  // namespace peri::kernels::cuda
