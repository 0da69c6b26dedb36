// Reports of steps: what they say of the candidate that was chosen, and where they go when steps are placed.
#pragma once

#include "lower/lower.hpp"

namespace peri::lower {

// Sets the fields of the chosen one. `needs` are those at the sizes of `region`; null: a size is open, none are set.
void describe_chosen(const tune::Candidate& chosen, const ir::Graph* region, const std::vector<bool>& constant,
                     const device::Target& target, StepReport* report);

// Places the steps of a program. Reports go with their steps; a copy has one of its own.
Status place_lowered(const Placement& placement, Lowered* out);

}  // namespace peri::lower
