// The source text of an attention's mask.
#pragma once

#include "kernels/cuda/code/signature.hpp"
#include "kernels/match/attention_match.hpp"

namespace peri::kernels::cuda {

// A statement that applies the mask to a `score` at b, h, i, j; "" without one.
Result<std::string> mask_text(const Problem& problem, const MatchedAttention& matched, Signature* signature);

}  // namespace peri::kernels::cuda
