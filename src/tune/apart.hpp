// An answer is right in full only beside one of another provider: what the cache calls right at positions is tried
// again where it was never held against one, or where another provider's new answer needs one to be held against.
#pragma once

#include <span>
#include <vector>

#include "tune/tuner.hpp"

namespace peri::tune {

// Those among `all`, of which `fresh` are not known yet, that have to be tried beside them: all that were right at
// positions if none of them was ever compared (each was tried by a build that asked for a few kernels only), else one
// of each of two providers, and nothing where no other provider has an answer.
std::vector<Candidate*> tried_apart(std::vector<Candidate>& all, std::span<Candidate* const> fresh);

}  // namespace peri::tune
