// Which parts of a cut are tried on the host although a device takes them: those that may cost less there, with their
// neighbours, than the copies between.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.hpp"
#include "lower/lower.hpp"

namespace peri::lower {

struct Neighbour {
  std::vector<const ir::Value*> values;  // it reads or writes, without weights
  bool host_only = false;                // no kernel of the device takes it
  bool light = false;                    // the host does it in about the time of the copies that it may save
};

// Indices of the parts, ascending: those that share a value with one that only the host takes, and light ones that are
// connected to such by other light ones. A chain of light parts between two of the host is found whole: where each of
// its parts stands alone, none is worth its copies.
std::vector<size_t> tried_beside(std::span<const Neighbour> parts);

// Whether a region at the tuned dims is light.
bool is_light(const Terms& terms, const ir::Graph& region);

}  // namespace peri::lower
