// Looks for inputs of concat, and of ports for a past.
#include "onnx/joined_sizes.hpp"

#include "ops/entry.hpp"

namespace peri::onnx {

namespace {
// The graph input whose elements these are, moved or in another type; null: they are of no input alone.
const ir::Value* input_of(const ir::Value* v) {
  while (v && !v->is_input) {
    const ir::Node* const n = v->producer;
    if (!n || v->output_index != 0 || n->inputs.empty()) return nullptr;
    if (!ops::is_view(*n) && !ops::is(*n, &ops::OpDef::moves)) return nullptr;
    if (n->op == "concat") return nullptr;
    v = n->inputs[0];
  }
  return v;
}

bool open(const Dim& d) { return d.is_symbol() && provably_at_least(d, 1); }

void add(const ir::Value* joined, int64_t axis, std::set<std::string, std::less<>>* out) {
  const ir::Value* const input = input_of(joined);
  if (!input || !joined->type.shape || !input->type.shape) return;
  const auto rank = static_cast<int64_t>(joined->type.rank());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return;
  const Dim& d = (*joined->type.shape)[static_cast<size_t>(axis)];
  if (!open(d)) return;
  for (const Dim& given : *input->type.shape)
    if (given == d) out->insert(d.symbol_name());
}
}  // namespace

std::set<std::string, std::less<>> joined_sizes(const ir::Graph& graph) {
  std::set<std::string, std::less<>> out;
  for (const ir::Node* n : graph.nodes) {
    const ops::OpDef* const op = ops::find(n->op);
    if (!op) continue;
    if (n->op == "concat" && n->inputs.size() > 1)
      for (const ir::Value* v : n->inputs) add(v, n->i("axis"), &out);
    for (size_t k = 0; k < n->inputs.size() && k < op->inputs.size(); ++k)
      if (n->inputs[k] && op->inputs[k].name.starts_with("past")) add(n->inputs[k], -2, &out);
  }
  return out;
}

}  // namespace peri::onnx
