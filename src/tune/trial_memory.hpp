// The memory that trying the candidates of a problem takes beside the process itself, known from its graph.
#pragma once

#include "ir/graph.hpp"

namespace peri::tune {

double bytes_of(const ir::Graph& region);  // of its inputs and outputs; an open dimension counts as one
// Arguments as they are made, in the layout asked for, in the run and as a kernel packs them; results in the run, as
// they were first, row-major, what is compared of both, and the same of two providers.
double trial_bytes(const ir::Graph& region);
// Every value of the region in float64, those that are computed with their radii.
double reference_bytes(const ir::Graph& region);

}  // namespace peri::tune
