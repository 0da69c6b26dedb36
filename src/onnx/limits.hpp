// Limits far above real models, without which a small file could cause hours of work: values that one node reads or
// makes, a model's inputs and outputs, its named dimensions.
#pragma once

#include "onnx/model.hpp"

namespace peri::onnx {

// Errors: kUnsupported, naming the node and the limit.
Status check_node_size(const NodeRecord& node);
// `constants`: number of the graph's inputs that have an initializer.
Status check_ports(size_t inputs, size_t constants, size_t outputs, size_t named_dimensions);

}  // namespace peri::onnx
