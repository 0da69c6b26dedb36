// The source text of where an attention's elements are, and of its mask.
#pragma once

#include "kernels/cuda/code/signature.hpp"
#include "kernels/match/attention_match.hpp"

namespace peri::kernels::cuda {

// "#define PERI_X_AT(B, H, S, D)" with the name X: the index of an element, strides of 0 left out.
std::string place_text(char name, const HeadView& view, Signature* signature);

// A statement that applies the mask to a `score` at b, h, i, j; "" without one.
Result<std::string> mask_text(const Problem& problem, const MatchedAttention& matched, Signature* signature);

}  // namespace peri::kernels::cuda
