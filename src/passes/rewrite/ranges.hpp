// Values known to count 0, 1, ... n-1.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// A single known integer, as an expression.
std::optional<Dim> one_size(const ir::Value* v);

// n if v holds 0, 1, ... n-1 in this order in any shape: a range, possibly reshaped.
std::optional<Dim> counted(const ir::Value* v);

// n if v, aligned to `rank` axes as in broadcasting, counts along `axis` and all its other dimensions are 1.
std::optional<Dim> counted_along(const ir::Value* v, size_t axis, size_t rank);

}  // namespace peri::passes
