// The sizes of a build: the tuned sizes, the smallest and largest at which every choice must be valid, and the
// resulting limits for runs; as given, else as in a lock.
#pragma once

#include "compile/compile.hpp"

namespace peri::compile {

struct BuildSizes {
  DimBinding tuned_for;
  std::vector<DimBinding> bounds;  // complete bindings, the smallest before the largest; only those given
  DimBinding at_least, at_most;    // only the dimensions that were given
};
// Errors: kUsage where sizes contradict each other or the model; kRefused where the lock is for others.
Result<BuildSizes> build_sizes(const ir::Graph& graph, const Options& options);

}  // namespace peri::compile
