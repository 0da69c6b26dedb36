// The element types of a model's inputs and outputs, where they differ from the model's own.
#pragma once

#include "ir/graph.hpp"

namespace peri::compile {

// Inputs and outputs of `graph` that are float32, float16 or bfloat16 become `type`, with a cast behind or in front;
// the model between stays as it is. Errors: those of inference.
Status set_interface_types(ir::Graph& graph, DType type);

}  // namespace peri::compile
