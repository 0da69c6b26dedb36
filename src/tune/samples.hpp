// Tier 1 of verification: a kernel on the small and edge samples of all ops, in full against the float64 reference.
#pragma once

#include "tune/judge.hpp"
#include "tune/trial_place.hpp"

namespace peri::tune {

// Runs every offer the kernel makes for its own samples and the common ones (sample_regions.hpp), in every form of
// Trial::verify; weights constant and not. Ends with the first that is wrong; one that takes no sample fails. Seeded;
// about a second for all kernels together.
SampleVerdict check_samples(const kernels::Kernel& kernel, const TrialPlace& place, ThreadPool* pool);

// Has the code that these samples need on a device compiled by other threads, before anyone waits for it.
void foresee_samples(const kernels::Kernel& kernel, const TrialPlace& place);

}  // namespace peri::tune
