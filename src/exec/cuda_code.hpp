// The machine code of a step of executor "cuda": the texts that its launches are compiled from, now or ahead of time.
#pragma once

#include "device/cuda/compiler.hpp"
#include "kernels/cuda/code/launch.hpp"

namespace peri::exec {

device::cuda::Source source_of(const kernels::Kernel& kernel, const kernels::cuda::KernelLaunch& launch,
                               std::string chip);

// What the launches of a candidate are compiled from, on the problem in the layouts of the offer, for which no weight
// is needed; several launches may have one text. Nothing for executors without code, targets without a GPU, launches
// that bring code of their own, and what cannot be planned, which is told by whoever makes the step.
std::vector<device::cuda::Source> sources_of(const kernels::Kernel& kernel, const kernels::Problem& problem,
                                             const kernels::Offer& offer, const device::Target& target);

// Has these compiled by other threads, for who asks for them later. What cannot be compiled is told by whoever makes
// the step.
void foresee_code(const kernels::Kernel& kernel, const kernels::Problem& problem, const kernels::Offer& offer,
                  const device::Target& target, bool urgent = false);

// What this process has waited for code of kernels in all, where it has asked for any; seconds.
double code_seconds();

}  // namespace peri::exec
