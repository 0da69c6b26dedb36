// Tier 1 of verification: a kernel on the small and edge samples of all ops, in full against the float64 reference.
#pragma once

#include "tune/judge.hpp"

namespace peri::tune {

// Runs every offer the kernel makes for a sample, for the sample with an activation, and with a residual and an
// activation after it; weights constant and not. Ends with the first that is wrong. Seeded; takes well under a second.
SampleVerdict check_samples(const kernels::Kernel& kernel, const kernels::Machine& machine, ThreadPool* pool);

}  // namespace peri::tune
