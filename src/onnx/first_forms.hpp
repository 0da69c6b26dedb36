// Forms of operators from opset 1 to 6 that mean what later ones do: what they said of memory and of broadcasting in
// attributes is brought to the form of opset 7.
#pragma once

#include <string_view>

#include "onnx/model.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

// The opset before which nodes are brought to the form of this one.
constexpr int64_t kFirstPlainOpset = 7;

// Whether the form of opset 1 can be brought there, though the definition does not list it.
bool has_first_form(std::string_view op);
// Whether `name` is an attribute that only such a form of `op` has.
bool is_first_attr(std::string_view op, std::string_view name, AttrType type);
// Brings a node of opset 1 to 6 to the form of opset 7; its inputs are typed. Errors: kUnsupported where the meaning
// was another one (training).
Status open_first_form(ir::Graph& graph, ir::Node& node, int64_t opset);

}  // namespace peri::onnx
