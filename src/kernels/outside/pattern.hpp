// Whether a region is what a pattern with named dimensions says, and at which sizes.
#pragma once

#include "kernels/entry.hpp"

namespace peri::kernels::outside {

struct Match {
  DimBinding sizes;            // of the pattern's named dimensions
  std::vector<size_t> inputs;  // which of the problem's each of the pattern's is
};
// The same nodes over values of the same types, operands in the order in which they stand. Outputs in the order of the
// pattern's; inputs in any. Refuses with what differs first.
Result<Match> match(const ir::Graph& pattern, const Problem& problem);

}  // namespace peri::kernels::outside
