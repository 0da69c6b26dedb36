// Activations in 16 bits: for arithmetic that multiplies float16 or bfloat16 and accumulates in float32.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// Values of `graph` become `type`, float16 or bfloat16, starting where an op multiplies by weights or gathers rows of a
// narrow table, through element-wise ops, up to an op that sums, compares or searches: that op and the element-wise ops
// that only it reads stay float32, between casts. Float32 constants that meet a narrow value saturate. Inputs and
// outputs of the graph keep their types. Returns the number of nodes changed.
Result<int64_t> narrow_values(ir::Graph& graph, DType type);

}  // namespace peri::passes
