// Adds a cast to each port whose type changes.
#include "compile/interface_types.hpp"

#include "ops/entry.hpp"

namespace peri::compile {

namespace {
bool is_changeable(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }
bool changes(DType have, DType type) { return have != type && is_changeable(have); }
ir::Attrs to(DType t) { return {{"to", static_cast<int64_t>(t)}}; }
}  // namespace

Status check_interface_types(const ir::Graph& graph) {
  for (const auto* ports : {&graph.inputs, &graph.outputs})
    for (const ir::Value* v : *ports)
      if (is_changeable(v->type.dtype)) return Ok{};
  return usage("--io-dtype changes inputs and outputs of f32, f16 and bf16, and this model has none")
      .advise("leave it out");
}

Status set_interface_types(ir::Graph& graph, DType type) {
  for (ir::Value* v : graph.inputs) {
    const DType own = v->type.dtype;
    if (!changes(own, type)) continue;
    v->type.dtype = type;
    ir::Node* cast = graph.add("cast", {v}, to(own));
    const std::vector<ir::Node*> users = v->users;
    for (ir::Node* n : users)
      for (size_t k = 0; n != cast && k < n->inputs.size(); ++k)
        if (n->inputs[k] == v) graph.set_input(n, k, cast->out());
  }
  for (ir::Value*& v : graph.outputs)
    if (changes(v->type.dtype, type) && !v->is_input) v = graph.add("cast", {v}, to(type))->out();
  return ops::infer_graph(graph);
}

}  // namespace peri::compile
