// How many elements of an integer list are followed as expressions.
#pragma once

#include <algorithm>

#include "ir/graph.hpp"

namespace peri::ops {

// Largest number of elements of a content that is computed.
constexpr int64_t kMaxContent = 1024;

// Of what `node` reads: also as many as it makes values, which a list may give the sizes of.
inline int64_t most_followed(const ir::Node& node) { return std::max(kMaxContent, std::ssize(node.outputs)); }

}  // namespace peri::ops
