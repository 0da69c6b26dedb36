// The element types of a model's inputs and outputs, where they differ from the model's own.
#pragma once

#include "ir/graph.hpp"

namespace peri::compile {

// Changes inputs and outputs of `graph` that are float32, float16 or bfloat16 to `type`, with a cast after or before
// them; the rest of the model is unchanged. Errors: those of inference.
Status set_interface_types(ir::Graph& graph, DType type);
// kUsage: no input or output is of these types.
Status check_interface_types(const ir::Graph& graph);

}  // namespace peri::compile
