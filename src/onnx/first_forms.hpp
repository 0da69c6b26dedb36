// Forms of operators from opset 1 to 6 with the meaning of later ones: attributes about memory and broadcasting are
// converted to the form of opset 7.
#pragma once

#include <string_view>

#include "onnx/model.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

// The opset whose form nodes of earlier ones are converted to.
constexpr int64_t kFirstPlainOpset = 7;

// Whether the form of opset 1 can be converted, though the definition does not list it.
bool has_first_form(std::string_view op);
// Whether `name` is an attribute that only such a form of `op` has.
bool is_first_attr(std::string_view op, std::string_view name, AttrType type);
// Converts a node of opset 1 to 6 to the form of opset 7; its inputs are typed. Errors: kUnsupported where its meaning
// differed (training).
Status open_first_form(ir::Graph& graph, ir::Node& node, int64_t opset);

}  // namespace peri::onnx
