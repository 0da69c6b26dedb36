// Siblings: regions of a cut that start with the same op on the same value and do not depend on each other, like the
// products for queries, keys and values, or whose prefixes do not, like a gate and the value that it multiplies. They
// may run as one region.
#pragma once

#include "lower/region.hpp"

namespace peri::lower {

constexpr size_t kMaxSiblings = 8;        // the limit of the kernels for siblings
constexpr size_t kMaxAnySiblings = 4;     // 11 subsets; of eight there are 28 adjacent ones
constexpr size_t kMaxWaysTogether = 256;  // two of each of eight

// A member of a group, a region of the cut. A region that needs another member's result after its prefix is a member by
// that prefix only.
struct Sibling {
  size_t region = 0;      // its index in the cut
  bool whole = true;      // all of it may run with the others
  size_t beginnings = 0;  // this many of its prefixes may
};

// Moves siblings in a cut, which is in execution order, to directly after the first of them, except those that are
// members by a prefix; the order stays valid. Returns the groups, each starting with its first member, which is a whole
// one. The inputs of a group are produced by regions before its first.
std::vector<std::vector<Sibling>> bring_together(std::vector<Region>* cut);

}  // namespace peri::lower
