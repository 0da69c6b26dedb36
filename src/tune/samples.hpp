// Tier 1 of verification: a kernel on the small and edge samples of all ops, in full, against the float64 reference.
#pragma once

#include <functional>

#include "kernels/entry.hpp"
#include "tune/judge.hpp"
#include "tune/trial_place.hpp"

namespace peri::tune {

// Runs every offer of the kernel for its own samples and the common ones (sample_regions.hpp), in every form of
// Trial::verify; weights constant and not. Stops at the first that is wrong; fails if no sample is supported. Seeded;
// about a second for all kernels together.
SampleVerdict check_samples(const kernels::Kernel& kernel, const TrialPlace& place, ThreadPool* pool,
                            const std::function<void()>& before = {});

// The subset of them that is run on a device, where each configuration of each problem compiles its own code. In order.
using EachOffer = std::function<void(const kernels::Problem& problem, const kernels::Offer& offer)>;
void each_sample_of_share(const kernels::Kernel& kernel, const device::Target& target, const EachOffer& tell);

// Has the code for these samples on a device compiled by other threads in advance; urgent: before everything else.
void foresee_samples(const kernels::Kernel& kernel, const TrialPlace& place, bool urgent);

}  // namespace peri::tune
