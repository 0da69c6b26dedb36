// The last part of lowering: f32 steps that follow one another become chains, one pass over the tile each.
#pragma once

#include "kernels/cpu/block/plan.hpp"

namespace peri::kernels::cpu::block {

// Gives every kernel step without a loop its loop, or makes it part of a chain. A tile that only its chain reads is no
// longer written.
void build_chains(Plan* plan);

}  // namespace peri::kernels::cpu::block
