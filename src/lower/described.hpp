// What the report of a step says of the candidate that was chosen for it.
#pragma once

#include "lower/lower.hpp"

namespace peri::lower {

// Sets the fields of the chosen one. `needs` are those at the sizes of `region`; null: a size is open, none are set.
void describe_chosen(const tune::Candidate& chosen, const ir::Graph* region, const std::vector<bool>& constant,
                     const device::Target& target, StepReport* report);

}  // namespace peri::lower
