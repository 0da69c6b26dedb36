// A surveyed model as an ir::Graph: every node as written, functions inlined, constants in place, nothing inferred yet.
#pragma once

#include "onnx/survey.hpp"
#include "onnx/tensor_data.hpp"

namespace peri::onnx {

// An attribute of every node as imported, including those of bodies: the opset of its operator.
constexpr std::string_view kOpsetAttr = "onnx.opset";

struct BuiltGraph {
  ir::Graph graph;
};

// If, Loop, Scan or SequenceMap, whose bodies use names of the enclosing graphs.
bool is_control(const NodeRecord& node);

// REQUIRES: survey.report.supported(). Errors: data of tensors, attributes of the wrong type or unknown to the
// operator.
Result<BuiltGraph> build_graph(const Survey& survey, WeightFiles& weights);

}  // namespace peri::onnx
