// A surveyed model as an ir::Graph: every node as written, functions inlined, constants in place, nothing inferred yet.
#pragma once

#include "onnx/survey.hpp"
#include "onnx/tensor_data.hpp"

namespace peri::onnx {

struct BuiltGraph {
  ir::Graph graph;
  std::vector<int64_t> opsets;  // of graph.nodes, by index
};

// REQUIRES: survey.report.supported(). Errors: data of tensors, attributes of the wrong type or unknown to the
// operator.
Result<BuiltGraph> build_graph(const Survey& survey, WeightFiles& weights);

}  // namespace peri::onnx
