// The mask of an attention as text.
#pragma once

#include "kernels/cuda/code/signature.hpp"
#include "kernels/match/attention_match.hpp"

namespace peri::kernels::cuda {

// What the mask makes of a `score` at b, h, i, j: a statement, "" without one.
Result<std::string> mask_text(const Problem& problem, const MatchedAttention& matched, Signature* signature);

}  // namespace peri::kernels::cuda
