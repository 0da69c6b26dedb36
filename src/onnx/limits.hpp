// Limits that real models stay far below, and beyond which a small file would mean hours of work: values that one node
// reads or makes, a model's inputs and outputs, its named dimensions.
#pragma once

#include "onnx/model.hpp"

namespace peri::onnx {

// Errors: kUnsupported, naming the node and the limit.
Status check_node_size(const NodeRecord& node);
// `constants`: of the graph's inputs so many at most have a value of their own.
Status check_ports(size_t inputs, size_t constants, size_t outputs, size_t named_dimensions);

}  // namespace peri::onnx
