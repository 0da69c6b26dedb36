// Which instruction sets the tests of loops can run.
#pragma once

#include "device/target.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu {

// Whether kernels compiled for `isa` may run here.
inline bool runs_here(Isa isa) { return device::this_cpu().has(isa_name(isa)); }

}  // namespace peri::kernels::cpu
