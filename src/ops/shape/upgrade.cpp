// Attributes that became inputs in later versions of an operator.
#include "ops/shape/upgrade.hpp"

namespace peri::ops {

ir::Value* ints_constant(ir::Graph& graph, std::string_view name, std::span<const int64_t> values) {
  return graph.add_constant(name, Tensor::of_i64({static_cast<int64_t>(values.size())}, values));
}

void put_input(ir::Graph& graph, ir::Node& node, size_t port, ir::Value* v) {
  while (node.inputs.size() <= port) graph.append_input(&node, nullptr);
  graph.set_input(&node, port, v);
}

Status ints_to_input(ir::Graph& graph, ir::Node& node, std::string_view key, size_t port) {
  auto it = node.attrs.find(key);
  if (it == node.attrs.end()) return Ok{};
  const auto* values = std::get_if<std::vector<int64_t>>(&it->second);
  if (!values) return invalid("attribute '%s' of %s must be a list of integers", it->first.c_str(), node.op.c_str());
  if (node.in(port)) return invalid("%s has both attribute and input '%s'", node.op.c_str(), it->first.c_str());
  put_input(graph, node, port, ints_constant(graph, key, *values));
  node.attrs.erase(it);
  return Ok{};
}

Status float_to_input(ir::Graph& graph, ir::Node& node, std::string_view key, size_t port) {
  auto it = node.attrs.find(key);
  if (it == node.attrs.end()) return Ok{};
  const auto* value = std::get_if<double>(&it->second);
  if (!value) return invalid("attribute '%s' of %s must be a float", it->first.c_str(), node.op.c_str());
  if (node.in(port)) return invalid("%s has both attribute and input '%s'", node.op.c_str(), it->first.c_str());
  if (!node.in(0)) return invalid("%s needs its first input", node.op.c_str());
  const DType data = node.in(0)->type.dtype;
  const float f = static_cast<float>(*value);
  if (data == DType::kInvalid || !is_float(data)) {  // not typed yet: take the type of the data when it is known
    ir::Value* scalar = graph.add_constant(key, Tensor::of_f32({}, {&f, 1}));
    put_input(graph, node, port, graph.add("cast_like", {scalar, node.in(0)}, {}, key)->out());
  } else {
    PERI_ASSIGN(Tensor t, Tensor::zeros(data, {}));
    t.set_f64(0, f);
    put_input(graph, node, port, graph.add_constant(key, std::move(t)));
  }
  node.attrs.erase(it);
  return Ok{};
}

}  // namespace peri::ops
