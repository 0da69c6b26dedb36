// A kernel that replaces a step's own at a size that the own one refuses: e.g. an operand of one row that was larger at
// the sizes for which it was chosen.
#pragma once

#include <functional>
#include <string>

#include "kernels/entry.hpp"

namespace peri::exec {

struct OtherKernel {
  const kernels::Kernel* kernel = nullptr;  // null: no kernel supports the problem
  std::string config;                       // of the chosen offer
  std::unique_ptr<kernels::Instance> instance;
};

// Of the executor's kernels, other than `refusing` (null: of all) and without a library that must be present, the one
// of the shortest estimated time, else the first, that supports `problem` in the layouts of its arguments and that
// `serves` accepts. Weights are packed again.
OtherKernel other_kernel(std::string_view executor, const kernels::Kernel* refusing, const kernels::Problem& problem,
                         const kernels::InstantiateContext& context,
                         const std::function<bool(const kernels::Kernel&, const kernels::Instance&)>& serves);

}  // namespace peri::exec
