// Branches: a region whose one result an element-wise region reads, and others read too or the graph returns. The two
// may run as one region with two results, so that the second is computed where the first is stored.
#pragma once

#include <functional>

#include "lower/region.hpp"

namespace peri::lower {

struct Branch {
  size_t stem = 0, branch = 0;  // indexes in the cut
};

// Moves branches in a cut, which is in execution order, to directly after their stem; the order stays valid. Only those
// that `stands` allows as one region with it, the first of each stem; all else that a branch reads is produced before
// the stem. Returns the pairs.
std::vector<Branch> bring_branches(const ir::Graph& graph,
                                   const std::function<bool(const Region&, const Region&)>& stands,
                                   std::vector<Region>* cut);

}  // namespace peri::lower
