// Sizes for steps that cannot have those they are tuned for, since what the data decide is larger there than what it
// meets: a list and the rest of it are never one row.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.hpp"

namespace peri::lower {

// Found when first asked for, by one thread.
class WideSizes {
 public:
  // `tuned_for`: with sizes of what the data decide. Both must outlive it.
  WideSizes(const ir::Graph& graph, const DimBinding& tuned_for) : graph_(graph), tuned_for_(tuned_for) {}
  // What is 1 is many, and each dimension in turn larger than all others; with sizes for what the data decide that fit.
  const std::vector<DimBinding>& all() const;

 private:
  const ir::Graph& graph_;
  const DimBinding& tuned_for_;
  mutable std::optional<std::vector<DimBinding>> all_;
};

}  // namespace peri::lower
