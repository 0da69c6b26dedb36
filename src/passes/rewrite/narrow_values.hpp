// Activations in 16 bits: for arithmetic that multiplies float16 or bfloat16 and adds in float32.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// Values of `graph` become `type`, float16 or bfloat16, from where an op multiplies by weights or takes rows of a
// narrow table, through what is computed of that element by element, to an op that sums, compares or searches: that one
// and the element-wise ops that it alone reads stay float32, between casts. Float32 constants that meet a narrow value
// saturate. Inputs and outputs of the graph keep their types. Returns how many nodes changed.
Result<int64_t> narrow_values(ir::Graph& graph, DType type);

}  // namespace peri::passes
