// The machine code of a step of executor "cuda": which texts its launches are compiled from, now or ahead of time.
#pragma once

#include "device/cuda/compiler.hpp"
#include "kernels/cuda/code/launch.hpp"

namespace peri::exec {

device::cuda::Source source_of(const kernels::Kernel& kernel, const kernels::cuda::KernelLaunch& launch,
                               std::string chip);

// Has the code of a candidate compiled by other threads, for who asks for it later: that of the problem in the layouts
// of the offer, for which no weight is needed. Nothing for executors without code and targets without a GPU. What
// cannot be planned or compiled is told by whoever makes the step.
void foresee_code(const kernels::Kernel& kernel, const kernels::Problem& problem, const kernels::Offer& offer,
                  const device::Target& target, bool urgent = false);

// What this process has waited for code of kernels in all, where it has asked for any; seconds.
double code_seconds();

}  // namespace peri::exec
