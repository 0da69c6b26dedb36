// Copying bodies into graphs, and traversing them.
#include "ir/bodies.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/fault.hpp"

namespace peri::ir {

std::vector<std::pair<std::string, std::shared_ptr<Graph>>> bodies_of(const Node& node) {
  std::vector<std::pair<std::string, std::shared_ptr<Graph>>> out;
  for (const auto& [key, attr] : node.attrs)
    if (const auto* g = std::get_if<std::shared_ptr<Graph>>(&attr)) out.emplace_back(key, *g);
  return out;
}

bool has_bodies(const Node& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(),
                     [](const auto& a) { return std::holds_alternative<std::shared_ptr<Graph>>(a.second); });
}

std::string unique_name(std::string wanted, std::unordered_set<std::string>* taken) {
  std::string name = wanted;
  for (int k = 1; !taken->insert(name).second; ++k) name = wanted + "." + std::to_string(k);
  return name;
}

void for_each_node(const Graph& graph, const std::function<void(const Node&)>& visit) {
  for (const Node* n : graph.nodes) {
    visit(*n);
    for (const auto& [key, body] : bodies_of(*n)) for_each_node(*body, visit);
  }
}

std::vector<Value*> inline_body(Graph& graph, const Graph& body, std::span<Value* const> arguments, size_t position,
                                size_t* made) {
  PERI_CHECK(arguments.size() == body.inputs.size(), "a body gets an argument for each input");
  std::unordered_map<const Value*, Value*> map;
  for (size_t k = 0; k < arguments.size(); ++k) map[body.inputs[k]] = arguments[k];
  const auto there = [&](const Value* v) -> Value* {
    if (!v) return nullptr;
    Value*& to = map[v];
    if (!to && v->constant) {
      to = graph.add_constant(v->name, *v->constant);
      to->type = v->type;
    }
    PERI_CHECK(to != nullptr, "a value of a body has a source");
    return to;
  };
  const size_t before = graph.nodes.size();
  const Graph copy = body.clone();  // bodies within it are copied, not shared
  for (size_t k = 0; k < body.nodes.size(); ++k) {
    const Node& n = *body.nodes[k];
    std::vector<Value*> inputs;
    for (const Value* v : n.inputs) inputs.push_back(there(v));
    Node* to = graph.add(n.op, std::move(inputs), copy.nodes[k]->attrs, "", 0);
    to->name = n.name;
    to->origins = n.origins;
    to->touched_by = n.touched_by;
    for (const Value* v : n.outputs) {
      Value* out = graph.add_output_value(to, v->name);
      out->type = v->type;
      out->content = v->content;
      map[v] = out;
    }
  }
  *made = graph.nodes.size() - before;
  std::rotate(graph.nodes.begin() + static_cast<std::ptrdiff_t>(position),
              graph.nodes.begin() + static_cast<std::ptrdiff_t>(before), graph.nodes.end());
  std::vector<Value*> results;
  for (const Value* v : body.outputs) results.push_back(there(v));
  return results;
}

void substitute_attrs(Graph& graph, const std::map<std::string, Dim, std::less<>>& dims) {
  if (dims.empty()) return;
  for (Node* n : graph.nodes)
    for (auto& [key, attr] : n->attrs)
      if (auto* list = std::get_if<std::vector<Dim>>(&attr))
        for (Dim& d : *list) d = d.substitute(dims);
}

void drop_input(Graph& body, size_t k) {
  Value* v = body.inputs[k];
  PERI_CHECK(v->users.empty() && !body.is_output(v), "an input in use is dropped");
  body.inputs.erase(body.inputs.begin() + static_cast<std::ptrdiff_t>(k));
  body.forget(v);
}

}  // namespace peri::ir
