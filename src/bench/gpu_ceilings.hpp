// Rates that no run on a GPU can exceed, in the terms of ceilings.hpp, with multiprocessors as threads.
#pragma once

#include "bench/ceilings.hpp"

namespace peri::device::cuda {
struct GpuFacts;
}

namespace peri::bench {

Ceilings gpu_ceilings(const device::cuda::GpuFacts& gpu);

}  // namespace peri::bench
