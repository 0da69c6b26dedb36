// The sizes of a build: what it is tuned for, the smallest and largest at which every choice must hold too, and the
// limits that follow from them for runs; as they are given, else as a lock has them.
#pragma once

#include "compile/compile.hpp"

namespace peri::compile {

struct BuildSizes {
  DimBinding tuned_for;
  std::vector<DimBinding> bounds;  // whole bindings, the smallest before the largest; those that were given
  DimBinding at_least, at_most;    // only the dimensions that were given
};
// Errors: kUsage where sizes contradict each other or the model; kRefused where the lock is for others.
Result<BuildSizes> build_sizes(const ir::Graph& graph, const Options& options);

}  // namespace peri::compile
