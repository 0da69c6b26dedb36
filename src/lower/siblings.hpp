// Siblings: regions of a cut that begin with the same op on the same value and need nothing of each other, like the
// products for queries, keys and values. Side by side in the order they may run as one region.
#pragma once

#include "lower/region.hpp"

namespace peri::lower {

constexpr size_t kMaxSiblings = 8;
constexpr size_t kMaxAnySiblings = 4;

// Moves siblings of a cut, which is in an order in which it may run, up behind the first of them; the order stays one
// in which it may run. Returns the groups as ranges [first, end) of places.
std::vector<std::pair<size_t, size_t>> bring_together(std::vector<Region>* cut);

}  // namespace peri::lower
