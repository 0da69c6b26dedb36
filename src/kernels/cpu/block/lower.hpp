// The second half of make_plan(): instructions become slots and steps.
#pragma once

#include "kernels/cpu/block/plan.hpp"

namespace peri::kernels::cpu::block {

// Fills in slots, steps, constants and scratch of a plan whose dims and tiles are chosen. `by_row`: every tile lies
// within one row of the innermost dim.
void lower(const Program& program, bool by_row, Plan* plan);

}  // namespace peri::kernels::cpu::block
