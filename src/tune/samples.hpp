// Tier 1 of verification: a kernel on the small and edge samples of all ops, in full, against the float64 reference.
#pragma once

#include <functional>

#include "kernels/entry.hpp"
#include "tune/judge.hpp"
#include "tune/trial_place.hpp"

namespace peri::tune {

// Runs every offer the kernel makes for its own samples and the common ones (sample_regions.hpp), in every form of
// Trial::verify; weights constant and not. Ends with the first that is wrong; one that takes no sample fails. Seeded;
// about a second for all kernels together.
SampleVerdict check_samples(const kernels::Kernel& kernel, const TrialPlace& place, ThreadPool* pool,
                            const std::function<void()>& before = {});

// What of them is run on a device, where each configuration of each problem is code of its own: a part. In order.
using EachOffer = std::function<void(const kernels::Problem& problem, const kernels::Offer& offer)>;
void each_sample_of_share(const kernels::Kernel& kernel, const device::Target& target, const EachOffer& tell);

// Has the code that these samples need on a device compiled by other threads, before anyone waits for it; urgent:
// before all else.
void foresee_samples(const kernels::Kernel& kernel, const TrialPlace& place, bool urgent);

}  // namespace peri::tune
