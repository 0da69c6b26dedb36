// What no run on a GPU can exceed, in the terms of ceilings.hpp: its multiprocessors stand for the threads.
#pragma once

#include "bench/ceilings.hpp"

namespace peri::device::cuda {
struct GpuFacts;
}

namespace peri::bench {

Ceilings gpu_ceilings(const device::cuda::GpuFacts& gpu);

}  // namespace peri::bench
