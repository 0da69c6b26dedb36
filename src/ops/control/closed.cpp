// Translation of names of sizes between a body and the enclosing graph.
#include "ops/control/closed.hpp"

#include <algorithm>

#include "ir/bodies.hpp"

namespace peri::ops {

bool Closed::holds(const Dim& d) const {
  std::set<std::string> names;
  d.collect_symbols(names);
  return std::includes(bound.begin(), bound.end(), names.begin(), names.end());
}

std::string Closed::free_name(std::string_view stem) const {
  for (int k = 0;; ++k)
    if (std::string name = std::string(stem) + "_" + std::to_string(k); !bound.contains(name)) return name;
}

void Closed::close() {
  for (const ir::Type& t : types)
    for (const Dim& d : *t.shape)
      if (d.is_symbol()) bound.insert(d.symbol_name());
  std::map<std::string, std::string> given;  // text outside -> name inside
  for (ir::Type& t : types)
    for (Dim& d : *t.shape) {
      if (d.is_const() || holds(d)) continue;
      std::string& name = given[d.text()];
      if (name.empty()) {
        name = free_name(provably_at_least(d, 1) ? "size" : "data.size");
        bound.insert(name);
        outward.emplace(name, d);
      }
      d = Dim::symbol(name);
    }
  for (Content& content : contents) {
    for (Dim& d : content ? *content : std::vector<Dim>())
      if (const auto it = given.find(d.text()); it != given.end()) d = Dim::symbol(it->second);
    if (content && !std::all_of(content->begin(), content->end(), [&](const Dim& d) { return holds(d); }))
      content.reset();
  }
}

ir::Graph opened(const ir::Graph& body, const Closed& closed) {
  ir::Graph g = body.clone();
  Names names;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    ir::Value& v = *g.inputs[k];
    const ir::Type& type = closed.types[k];
    if (v.type.shape && v.type.shape->size() == type.rank())
      for (size_t a = 0; a < type.rank(); ++a)
        if (const Dim& was = (*v.type.shape)[a]; was.is_symbol() && !(was == (*type.shape)[a]))
          names.emplace(was.symbol_name(), (*type.shape)[a]);
    v.type = type;
    v.content = closed.contents[k];
  }
  ir::substitute_attrs(g, names);
  return g;
}

Shape Closed::outside(const Shape& inside, InferContext& c, std::string_view stem, Names* made) const {
  Shape out;
  for (const Dim& d : inside) {
    std::set<std::string> names;
    d.collect_symbols(names);
    Names map;
    for (const std::string& n : names) {
      if (const auto it = made->find(n); it != made->end()) {
        map.insert(*it);
      } else if (const auto known = outward.find(n); known != outward.end()) {
        map.insert(*known);
      } else if (!bound.contains(n)) {
        map.insert(*made->emplace(n, c.fresh(stem)).first);
      }
    }
    out.push_back(d.substitute(map));
  }
  return out;
}

}  // namespace peri::ops
