// Matching of a region with a pattern that has named dimensions, which gives their sizes.
#pragma once

#include "kernels/entry.hpp"

namespace peri::kernels::outside {

struct Match {
  DimBinding sizes;            // of the pattern's named dimensions
  std::vector<size_t> inputs;  // for each input of the pattern its index in the problem
};
// The same nodes over values of the same types, operands in the same order; where the pattern has values of 16 bits
// between its inputs and outputs, also over float32 values between casts. Outputs in the order of the pattern's;
// inputs in any order. A refusal names the first difference.
Result<Match> match(const ir::Graph& pattern, const Problem& problem);

}  // namespace peri::kernels::outside
