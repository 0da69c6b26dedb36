// The last part of lowering: consecutive f32 steps become chains, each one pass over the tile.
#pragma once

#include "kernels/cpu/block/plan.hpp"

namespace peri::kernels::cpu::block {

// Gives every kernel step without a loop its loop, or adds it to a chain. A tile that only its own chain reads is no
// longer written.
void build_chains(Plan* plan);

}  // namespace peri::kernels::cpu::block
