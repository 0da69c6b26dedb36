// The second half of make_plan(): instructions become slots and steps.
#pragma once

#include "kernels/cpu/block/plan.hpp"

namespace peri::kernels::cpu::block {

// Whether an input is dense over the whole space in its order.
bool is_dense(const Plan& plan, size_t input);
// Whether it is one element for the whole space.
bool is_constant(const Plan& plan, size_t input);

// Fills in slots, steps, constants and scratch of a plan whose dims and tiles are chosen. `by_row`: every tile lies
// within one row of the innermost dim.
void lower(const Code& program, bool by_row, Plan* plan);

}  // namespace peri::kernels::cpu::block
