// Copies of nodes, with what is known in the place of what they read.
#include "judge/pieces.hpp"

#include <algorithm>

#include "ir/bodies.hpp"
#include "passes/rewrite/narrow.hpp"

namespace peri::judge {

bool jumps_on(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  bool jumps = false;
  for (const auto& [key, body] : ir::bodies_of(n))
    ir::for_each_node(*body, [&](const ir::Node& inner) {
      const ops::OpDef* o = ops::find(inner.op);
      jumps = jumps || (o && o->jumps);
    });
  for (const ir::Value* v : n.inputs) jumps = jumps || (op && op->jumps && v && v->producer && is_float(v->type.dtype));
  return jumps;
}

std::unordered_set<const ir::Value*> values_behind_jumps(const ir::Graph& model) {
  std::unordered_set<const ir::Value*> out;
  for (const ir::Node* n : model.nodes)
    if (jumps_on(*n) || std::any_of(n->inputs.begin(), n->inputs.end(), [&](auto* v) { return out.contains(v); }))
      out.insert(n->outputs.begin(), n->outputs.end());
  return out;
}

std::vector<const ir::Node*> way_to(const ir::Graph& model, std::span<const ir::Value* const> wanted,
                                    const Known& known) {
  std::unordered_set<const ir::Value*> needed(wanted.begin(), wanted.end());
  std::vector<const ir::Node*> nodes;
  for (size_t k = model.nodes.size(); k-- > 0;) {
    const ir::Node* n = model.nodes[k];
    if (std::none_of(n->outputs.begin(), n->outputs.end(), [&](const ir::Value* v) { return needed.contains(v); }))
      continue;
    nodes.push_back(n);
    for (const ir::Value* v : n->inputs)
      if (v && !known.contains(v)) needed.insert(v);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

Piece piece_of(const ir::Graph& model, const ir::Value* wanted, const Known& known) {
  Piece p;
  std::unordered_map<const ir::Value*, ir::Value*> made;
  const auto argument = [&](const ir::Value* v) -> ir::Value* {
    if (!v) return nullptr;
    if (const auto it = made.find(v); it != made.end()) return it->second;
    if (v->constant && !known.contains(v)) return made[v] = p.graph.add_constant(v->name, *v->constant);
    p.arguments.push_back(v);
    return made[v] = p.graph.add_input(v->name, v->type);
  };
  for (const ir::Node* node : way_to(model, {&wanted, 1}, known)) {
    const ir::Node& n = *node;
    std::vector<ir::Value*> in;
    for (const ir::Value* v : n.inputs) in.push_back(argument(v));
    ir::Node* copy = p.graph.add(n.op, std::move(in), n.attrs, n.out()->name, static_cast<int>(n.outputs.size()));
    copy->name = n.name;
    for (size_t m = 0; m < n.outputs.size(); ++m) {
      copy->outputs[m]->type = n.outputs[m]->type;
      if (!known.contains(n.outputs[m])) made[n.outputs[m]] = copy->outputs[m];
    }
    p.jumps = p.jumps || jumps_on(*copy);
  }
  p.graph.mark_output(argument(wanted), wanted->name);
  return p;
}

namespace {
// Whether constants alone make it, of which there is one answer.
bool is_fixed(const ir::Value* v) {
  if (v->constant) return true;
  const ir::Node* n = v->producer;
  if (!n || n->inputs.empty() || !ir::bodies_of(*n).empty()) return false;
  return std::all_of(n->inputs.begin(), n->inputs.end(), [](const ir::Value* in) { return !in || is_fixed(in); });
}

Status store_weights(ir::Graph& graph, DType stored, int threads) {
  std::unordered_map<const ir::Value*, ir::Value*> made;
  for (ir::Node* n : graph.nodes) {
    for (const auto& [key, body] : ir::bodies_of(*n)) PERI_TRY(store_weights(*body, stored, threads));
    for (size_t port = 0; port < n->inputs.size(); ++port) {
      const ir::Value* v = n->inputs[port];
      if (!is_weight(*n, port)) continue;
      if (const auto it = made.find(v); it != made.end()) {
        graph.set_input(n, port, it->second);
        continue;
      }
      PERI_ASSIGN(const Tensor exact, fixed_value(graph, v, threads));
      if (exact.numel() <= passes::kMaxUnrounded) continue;
      PERI_ASSIGN(Tensor rounded, as_stored(exact, stored));
      graph.set_input(n, port, made[v] = graph.add_constant(v->name, std::move(rounded)));
    }
  }
  return Ok{};
}
}  // namespace

bool is_weight(const ir::Node& n, size_t port) {
  const ir::Value* const v = n.inputs[port];
  return v && v->type.dtype == DType::kF32 && is_fixed(v) && passes::may_round(n, port);
}

Result<Tensor> fixed_value(const ir::Graph& model, const ir::Value* weight, int threads) {
  if (weight->constant) return *weight->constant;
  PERI_ASSIGN(const auto made, ops::run_reference(piece_of(model, weight, {}).graph, {}, {0, threads, true, {}}));
  return ops::from_ref(made[0]);
}

Result<Tensor> as_stored(const Tensor& exact, DType stored) {
  PERI_ASSIGN(const Tensor narrow, passes::saturated(exact, stored));
  return passes::in_float32(narrow);
}

Result<ir::Graph> with_stored_weights(const ir::Graph& model, DType stored, int threads) {
  ir::Graph out = model.clone();
  PERI_TRY(store_weights(out, stored, threads));
  return out;
}

}  // namespace peri::judge
