// Forks: a region (the stem) whose one result an element-wise region (the prong) reads, and others read too or the
// graph returns. The two may run as one region with two results, so that the second is computed where the first is
// stored.
#pragma once

#include <functional>

#include "lower/region.hpp"

namespace peri::lower {

struct Fork {
  size_t stem = 0, prong = 0;  // indexes in the cut
};

// Moves prongs in a cut, which is in execution order, to directly after their stem; the order stays valid. Only those
// that `stands` allows as one region with it, the first of each stem; all else that a prong reads is produced before
// the stem. Returns the pairs.
std::vector<Fork> bring_forks(const ir::Graph& graph, const std::function<bool(const Region&, const Region&)>& stands,
                              std::vector<Region>* cut);

}  // namespace peri::lower
