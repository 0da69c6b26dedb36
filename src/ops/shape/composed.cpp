// Replacement of composed operators.
#include "ops/shape/composed.hpp"

#include "ops/shape/upgrade.hpp"

namespace peri::ops {

ir::Value* Composed::scalar(DType type, double v) {
  auto t = Tensor::zeros(type, {});
  PERI_CHECK(t.ok());
  t->set_f64(0, v);
  return constant(std::move(t).value());
}

ir::Value* Composed::ints(std::vector<int64_t> v) { return ints_constant(graph_, node_.name, v); }

void Composed::give(size_t port, ir::Value* v) {
  if (port < node_.outputs.size()) graph_.replace_uses(node_.outputs[port], v);
}

Status Composed::done() {
  for (const ir::Value* v : node_.outputs)
    if (!v->users.empty() || graph_.is_output(v))
      return unsupported("its output '%s' is not made", v->name.c_str()).advise("export the model without that output");
  graph_.erase(&node_);
  return Ok{};
}

Status infer_composed(InferContext& c) {
  return unsupported("%s is written as other operators when a model is imported", c.node.op.c_str());
}

OpDef composed(std::string_view name, std::string_view onnx, std::vector<Port> inputs, std::vector<Port> outputs,
               std::vector<AttrSpec> attrs, Upgrade upgrade) {
  OpDef op;
  op.name = name;
  op.onnx = onnx;
  op.domain = "com.microsoft";
  op.versions = {1};
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.attrs = std::move(attrs);
  op.upgrade = upgrade;
  op.infer = infer_composed;
  return op;
}

OpDef composed(std::string_view name, std::string_view onnx, std::vector<Port> inputs, std::vector<AttrSpec> attrs,
               Upgrade upgrade) {
  return composed(name, onnx, std::move(inputs), std::vector<Port>{{"y"}}, std::move(attrs), upgrade);
}

}  // namespace peri::ops
