// Looks for inputs of concat, and of ports for a past, in the graph and in bodies.
#include "onnx/joined_sizes.hpp"

#include <algorithm>

#include "ir/bodies.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

namespace {
// A graph, and of a body the node that has it and the graph around that.
struct Scope {
  const ir::Graph* graph = nullptr;
  const ir::Node* node = nullptr;
  const Scope* outer = nullptr;
};

using Names = std::set<std::string, std::less<>>;

// The input of its graph whose elements these are, moved or in another type; null: they are of no input alone.
const ir::Value* input_of(const ir::Value* v) {
  while (v && !v->is_input) {
    const ir::Node* const n = v->producer;
    if (!n || v->output_index != 0 || n->inputs.empty()) return nullptr;
    const bool in_type = n->op == "dequantize_linear";  // By name: what moves with a scale, as a past of 8 bits does
    if (!in_type && !ops::is_view(*n) && !ops::is(*n, &ops::OpDef::moves)) return nullptr;
    if (n->op == "concat") return nullptr;
    v = n->inputs[0];
  }
  return v;
}

// What a body's input is around it, at first where a loop carries it: the last inputs of the node are the body's.
const ir::Value* given_to(const Scope& body, const ir::Value* input) {
  const std::vector<ir::Value*>&inputs = body.graph->inputs, &given = body.node->inputs;
  const size_t k = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin());
  return k < inputs.size() && inputs.size() <= given.size() ? given[given.size() - inputs.size() + k] : nullptr;
}

bool open(const Dim& d) { return d.is_symbol() && provably_at_least(d, 1); }

void add(const Scope& scope, const ir::Value* joined, size_t axis, Names* out) {
  const ir::Value* const input = input_of(joined);
  if (!input || !joined->type.shape || axis >= joined->type.rank() || !input->type.shape) return;
  const Dim& d = (*joined->type.shape)[axis];
  if (!d.is_symbol()) return;
  const ir::Value* const given = scope.outer ? given_to(scope, input) : nullptr;
  for (size_t a = 0; a < input->type.rank(); ++a) {
    if (!((*input->type.shape)[a] == d)) continue;
    if (given) add(*scope.outer, given, a, out);
    if (!scope.outer && open(d)) out->insert(d.symbol_name());
  }
}

void look(const Scope& scope, Names* out) {
  const auto along = [&](const ir::Value* v, int64_t axis) {
    if (v && v->type.shape) add(scope, v, static_cast<size_t>(axis < 0 ? axis + v->type.rank() : axis), out);
  };
  for (const ir::Node* n : scope.graph->nodes) {
    for (const auto& [name, body] : ir::bodies_of(*n)) look({body.get(), n, &scope}, out);
    const ops::OpDef* const op = ops::find(n->op);
    if (!op) continue;
    if (n->op == "concat" && n->inputs.size() > 1)
      for (const ir::Value* v : n->inputs) along(v, n->i("axis"));
    for (size_t k = 0; k < n->inputs.size() && k < op->inputs.size(); ++k)
      if (op->inputs[k].name.starts_with("past")) along(n->inputs[k], -2);
  }
}
}  // namespace

std::set<std::string, std::less<>> joined_sizes(const ir::Graph& graph) {
  Names out;
  look({&graph, nullptr, nullptr}, &out);
  return out;
}

}  // namespace peri::onnx
