// Evaluation of nodes that only move elements of constants, byte by byte, without the reference.
#pragma once

#include <optional>

#include "ir/graph.hpp"

namespace peri::passes {

// `t` with axis k taken from axis perm[k]. None: an element type that is not a whole number of bytes, strings, or out
// of memory.
std::optional<Tensor> transposed(const Tensor& t, const std::vector<int64_t>& perm);

// Output 0 of a reshape, squeeze, unsqueeze, flatten, identity or transpose of a constant; the node's types are
// inferred and its output's dims are numbers. None: another node, or one that needs the reference. All but transpose
// share the bytes.
std::optional<Tensor> moved_constant(const ir::Node& node);

}  // namespace peri::passes
