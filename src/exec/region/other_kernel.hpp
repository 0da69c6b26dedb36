// A kernel that replaces a step's own at a size that the own one refuses: e.g. an operand of one row that was whole at
// the sizes it was chosen for.
#pragma once

#include <functional>
#include <string>

#include "kernels/entry.hpp"

namespace peri::exec {

struct OtherKernel {
  const kernels::Kernel* kernel = nullptr;  // null: none takes the problem
  std::string config;                       // of its offer that was taken
  std::unique_ptr<kernels::Instance> instance;
};

// The first of the same executor, other than `refusing` and of no library that has to be found, that takes `problem` in
// the layouts its arguments have and that `serves` accepts. Weights are packed anew.
OtherKernel other_kernel(const kernels::Kernel& refusing, const kernels::Problem& problem,
                         const kernels::InstantiateContext& context,
                         const std::function<bool(const kernels::Kernel&, const kernels::Instance&)>& serves);

}  // namespace peri::exec
