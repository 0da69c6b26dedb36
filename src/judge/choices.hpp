// Whether a choice among values that rounding does not tell apart may come out as an engine says: of hundreds of equal
// ones, answers that are shaken at random hardly ever take the same.
#pragma once

#include <functional>
#include <span>

#include "ops/entry.hpp"

namespace peri::judge {

// The answer that the model's `output` 0 may have in arithmetic of round-off `options.u` which is nearest to `got`:
// what the choice at the end of `graph` (hardmax, arg_max, arg_min, indices of top_k) is made among is moved toward
// that answer, each value within the error that the operators before it allow, and the choice is computed anew. So it
// is a possible answer whatever `got` holds. Errors: kUnsupported where the graph does not end in a choice among values
// that it computes; those of the reference.
Result<ops::RefTensor> choice_toward(const ir::Graph& graph, std::span<const ops::RefTensor> inputs, const Tensor& got,
                                     ops::RefOptions options);

}  // namespace peri::judge
