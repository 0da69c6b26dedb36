// The machine code of a step of executor "cuda": the texts that its launches are compiled from, now or ahead of time.
#pragma once

#include "device/cuda/compiler.hpp"
#include "kernels/cuda/code/launch.hpp"

namespace peri::exec {

device::cuda::Source source_of(const kernels::Kernel& kernel, const kernels::cuda::KernelLaunch& launch,
                               std::string chip);

// The source texts of the launches of a candidate, on the problem in the layouts of the offer, for which no weight is
// needed; several launches may share a text. Empty for executors without code, targets without a GPU, launches with
// code of their own, and problems that cannot be planned: instantiation reports the error.
std::vector<device::cuda::Source> sources_of(const kernels::Kernel& kernel, const kernels::Problem& problem,
                                             const kernels::Offer& offer, const device::Target& target);

// Has these compiled by other threads in advance. Errors are reported by instantiation.
void foresee_code(const kernels::Kernel& kernel, const kernels::Problem& problem, const kernels::Offer& offer,
                  const device::Target& target, bool urgent = false);

// The total time, in seconds, that this process has waited for the compilation of kernels.
double code_seconds();

}  // namespace peri::exec
