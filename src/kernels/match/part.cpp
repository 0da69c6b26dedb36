// Parts of regions.
#include "kernels/match/part.hpp"

#include <unordered_map>

namespace peri::kernels {

ir::Graph part_of(const ir::Graph& g, size_t begin, size_t end, const ir::Value* middle, const ir::Value* result) {
  return part_of(g, begin, end, middle, std::span(&result, 1));
}

ir::Graph part_of(const ir::Graph& g, size_t begin, size_t end, const ir::Value* middle,
                  std::span<const ir::Value* const> results) {
  return part_of(g,
                 std::vector<const ir::Node*>(g.nodes.begin() + static_cast<ptrdiff_t>(begin),
                                              g.nodes.begin() + static_cast<ptrdiff_t>(end)),
                 middle, results);
}

ir::Graph part_of(const ir::Graph& g, std::span<const ir::Node* const> nodes, const ir::Value* middle,
                  std::span<const ir::Value* const> results) {
  ir::Graph out;
  std::unordered_map<const ir::Value*, ir::Value*> map;
  const auto input = [&](const ir::Value* v, const std::string& name) {
    map[v] = out.add_input(name, v->type);
    map[v]->type.layout = {};
  };
  for (size_t k = 0; k < g.inputs.size(); ++k) input(g.inputs[k], "x" + std::to_string(k));
  if (middle) input(middle, "middle");
  for (const ir::Node* node : nodes) {
    const ir::Node& n = *node;
    std::vector<ir::Value*> ins;
    for (const ir::Value* v : n.inputs) {
      if (v && !map.contains(v) && v->constant)
        map[v] = out.add_constant("c" + std::to_string(map.size()), *v->constant);
      ins.push_back(v && map.contains(v) ? map[v] : nullptr);
    }
    ir::Node* copy = out.add(n.op, ins, n.attrs, "", 0);
    for (const ir::Value* v : n.outputs) {
      map[v] = out.add_output_value(copy, "t" + std::to_string(map.size()));
      map[v]->type = v->type;
      map[v]->type.layout = {};
    }
  }
  for (const ir::Value* v : results)
    out.mark_output(map.at(v), "y" + (out.outputs.empty() ? "" : std::to_string(out.outputs.size())));
  return out;
}

}  // namespace peri::kernels
