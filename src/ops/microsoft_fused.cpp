// FusedConv and FusedGemm of com.microsoft: a Conv or Gemm, what is added, and an activation, as nodes of their own.
#include <limits>

#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

// An activation by its name in ONNX: its op, and its parameters with their fallbacks in the order in which they stand.
struct Activation {
  std::string_view onnx, op;
  struct Parameter {
    std::string_view name;
    double fallback = 0;
  };
  std::vector<Parameter> parameters = {};
};

const std::vector<Activation>& activations() {
  static const std::vector<Activation> kAll = {
      {"Relu", "relu"},
      {"Tanh", "tanh"},
      {"Sigmoid", "sigmoid"},
      {"Softplus", "softplus"},
      {"Softsign", "softsign"},
      {"LeakyRelu", "leaky_relu", {{"alpha", 0.01}}},
      {"Elu", "elu", {{"alpha", 1}}},
      {"ThresholdedRelu", "thresholded_relu", {{"alpha", 1}}},
      {"HardSigmoid", "hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}}},
      {"Clip", "clip", {{"min", std::numeric_limits<float>::lowest()}, {"max", std::numeric_limits<float>::max()}}},
  };
  return kAll;
}

Result<ir::Value*> activated(Composed& c, ir::Value* x, const std::string& name, const std::vector<double>& given) {
  if (name.empty()) return x;
  for (const Activation& a : activations()) {
    if (a.onnx != name) continue;
    std::vector<double> values;
    for (size_t k = 0; k < a.parameters.size(); ++k)
      values.push_back(k < given.size() ? given[k] : a.parameters[k].fallback);
    if (a.op == "clip") {
      const DType type = c.in(0)->type.dtype;
      return c.op("clip", {x, c.scalar(type, values[0]), c.scalar(type, values[1])});
    }
    ir::Attrs attrs;
    for (size_t k = 0; k < values.size(); ++k) attrs[std::string(a.parameters[k].name)] = values[k];
    return c.op(a.op, {x}, std::move(attrs));
  }
  return unsupported("the activation '%s' is not known", name.c_str())
      .advise("export the model without ONNX Runtime's graph optimisations");
}

Status conv(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kX, kW, kBias, kAdded };
  Composed c(graph, node);
  std::vector<ir::Value*> inputs = {c.in(kX), c.in(kW)};
  if (c.has(kBias)) inputs.push_back(c.in(kBias));
  ir::Attrs attrs = node.attrs;
  attrs.erase("activation");
  attrs.erase("activation_params");
  ir::Value* y = c.op("conv", std::move(inputs), std::move(attrs));
  if (c.has(kAdded)) y = c.op("add", {y, c.in(kAdded)});
  PERI_ASSIGN(y, activated(c, y, node.s("activation"), node.floats("activation_params")));
  c.give(0, y);
  return c.done();
}

Status gemm(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Attrs attrs = node.attrs;
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (node.has(name)) parameters.push_back(node.f(name));
  for (const char* name : {"activation", "activation_alpha", "activation_beta", "activation_gamma"}) attrs.erase(name);
  ir::Value* y = c.op("gemm", node.inputs, std::move(attrs));
  PERI_ASSIGN(y, activated(c, y, node.s("activation"), parameters));
  c.give(0, y);
  return c.done();
}

std::vector<OpDef> definitions() {
  const AttrSpec activation{"activation", AttrKind::kString, false, "none"};
  return {composed("fused_conv", "FusedConv",
                   {{"x", kFloats},
                    {"filters", kFloats, false, false, 0},
                    {"bias", kFloats, true, false, 0, Role::kBias},
                    {"added", kFloats, true, false, 0}},
                   {activation,
                    {"activation_params", AttrKind::kFloats, false, "those of the activation"},
                    {"auto_pad", AttrKind::kString, false, "NOTSET"},
                    {"dilations", AttrKind::kInts, false, "1 each"},
                    {"group", AttrKind::kInt, false, "1"},
                    {"kernel_shape", AttrKind::kInts, false, "that of w"},
                    {"pads", AttrKind::kInts, false, "0 each"},
                    {"strides", AttrKind::kInts, false, "1 each"}},
                   conv),
          composed("fused_gemm", "FusedGemm",
                   {{"a", kFloats}, {"b", kFloats, false, false, 0}, {"c", kFloats, true, false, 0}},
                   {activation,
                    {"activation_alpha", AttrKind::kFloat, false, "that of the activation"},
                    {"activation_beta", AttrKind::kFloat, false, "that of the activation"},
                    {"activation_gamma", AttrKind::kFloat, false, "that of the activation"},
                    {"alpha", AttrKind::kFloat, false, "1"},
                    {"beta", AttrKind::kFloat, false, "1"},
                    {"transA", AttrKind::kInt, false, "0"},
                    {"transB", AttrKind::kInt, false, "0"}},
                   gemm)};
}
}  // namespace

extern const Entry microsoft_fused_entry;
const Entry microsoft_fused_entry{definitions()};

}  // namespace peri::ops
