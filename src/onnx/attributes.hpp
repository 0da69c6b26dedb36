// Attributes of ONNX nodes as attributes of the IR, checked against the operator's definition (or an older version of
// the operator), so that upgrades can rely on their kinds.
#pragma once

#include "onnx/tensor_data.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

// Errors (kInvalid): an attribute that no version of the operator has, or of another type; they name attribute and
// operator.
Result<ir::Attrs> import_attrs(const NodeRecord& node, const ops::OpDef& def, int64_t opset, WeightFiles& weights);

// The value of a Constant node: exactly one of value, value_float(s), value_int(s), value_string(s), sparse_value.
Result<Tensor> constant_value(const NodeRecord& node, WeightFiles& weights);

}  // namespace peri::onnx
