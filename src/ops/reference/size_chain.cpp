// Goes back from each cast to an integer.
#include "ops/reference/size_chain.hpp"

#include "ops/entry.hpp"

namespace peri::ops {

std::unordered_set<const ir::Value*> size_chain(const ir::Graph& graph) {
  std::unordered_set<const ir::Value*> out;
  const auto list = [](const ir::Value* v) { return v && v->type.shape && v->type.rank() <= 1; };
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    const ir::Node& n = *graph.nodes[k];
    bool leads = false;
    for (const ir::Value* v : n.outputs) leads = leads || out.contains(v);
    const OpDef* const op = find(n.op);
    leads = leads || (op && op->converts && list(n.out()) && is_integer(n.out()->type.dtype));
    for (const ir::Value* v : n.inputs)
      if (leads && list(v) && v->type.dtype == DType::kF32) out.insert(v);
  }
  return out;
}

}  // namespace peri::ops
