// Activations of com.microsoft: those of ONNX with a bias before them: Gelu, BiasGelu, FastGelu, QuickGelu.
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

ir::Value* biased(Composed& c) { return c.has(1) ? c.op("add", {c.in(0), c.in(1)}) : c.in(0); }

Status gelu(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  c.give(0, c.op("gelu", {biased(c)}));
  return c.done();
}

Status fast_gelu(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  c.give(0, c.op("gelu", {biased(c)}, {{"approximate", std::string("tanh")}}));
  return c.done();
}

Status quick_gelu(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  c.give(0, c.op("swish", {c.in(0)}, {{"alpha", node.f("alpha", 1.702)}}));
  return c.done();
}

std::vector<OpDef> definitions() {
  std::vector<OpDef> out = {
      composed("microsoft_gelu", "Gelu", {{"x", kFloats}}, std::vector<AttrSpec>{}, gelu),
      composed("bias_gelu", "BiasGelu", {{"x", kFloats}, {"bias", kFloats, false, false, 0, Role::kBias}},
               std::vector<AttrSpec>{}, gelu),
      composed("fast_gelu", "FastGelu", {{"x", kFloats}, {"bias", kFloats, true, false, 0, Role::kBias}},
               std::vector<AttrSpec>{}, fast_gelu),
      composed("quick_gelu", "QuickGelu", {{"x", kFloats}}, std::vector<AttrSpec>{}, quick_gelu)};
  out.back().attrs = {{"alpha", AttrKind::kFloat, false, "1.702"}};
  return out;
}
}  // namespace

extern const Entry microsoft_activations_entry;
const Entry microsoft_activations_entry{definitions()};

}  // namespace peri::ops
