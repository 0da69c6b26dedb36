// Siblings: regions of a cut that start with the same op on the same value and do not depend on each other, like the
// products for queries, keys and values, or whose beginnings do not, like a gate and the value that it multiplies. They
// may run as one region.
#pragma once

#include "lower/region.hpp"

namespace peri::lower {

constexpr size_t kMaxSiblings = 8;        // as kernels for siblings take
constexpr size_t kMaxAnySiblings = 4;     // 11 subsets; of eight side by side there are 28
constexpr size_t kMaxWaysTogether = 256;  // two of each of eight

// A sibling of a group, a region of the cut. One that needs another's result behind its beginning is one by that
// beginning only.
struct Sibling {
  size_t region = 0;      // its place in the cut
  bool whole = true;      // all of it may run with the others
  size_t beginnings = 0;  // so many of its prefixes may
};

// Moves siblings of a cut, which is in an order in which it may run, up behind the first of them, but for those that
// are siblings by a beginning; the order stays one in which it may run. Returns the groups, each with the first of it
// in front, which is a whole one. What a group needs is made by regions before its first.
std::vector<std::vector<Sibling>> bring_together(std::vector<Region>* cut);

}  // namespace peri::lower
