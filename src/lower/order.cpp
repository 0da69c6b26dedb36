// The order of regions: topological (Kahn), by the place of their last node.
#include <map>
#include <set>
#include <unordered_map>

#include "lower/region.hpp"

namespace peri::lower {

namespace {
// Pairs of regions (first, second) where the second computes with a dimension that only the data of the first decides.
std::set<std::pair<size_t, size_t>> size_order(const ir::Graph& graph, const std::vector<Region>& regions) {
  std::set<std::string> given;
  for (const ir::Value* v : graph.inputs)
    for (const Dim& d : *v->type.shape) d.collect_symbols(given);
  std::unordered_map<const ir::Node*, size_t> unit;
  for (size_t k = 0; k < regions.size(); ++k)
    for (const ir::Node* n : regions[k].nodes) unit[n] = k;
  std::map<std::string, size_t> maker;
  for (const ir::Node* n : graph.nodes)
    for (const ir::Value* v : n->outputs)
      for (const Dim& d : *v->type.shape)
        if (d.is_symbol() && !given.contains(d.symbol_name()) && unit.contains(n))
          maker.emplace(d.symbol_name(), unit.at(n));
  std::set<std::pair<size_t, size_t>> out;
  if (maker.empty()) return out;
  auto note = [&](const ir::Node& sizes, size_t reader) {
    std::set<std::string> symbols;
    for (const Dim& d : *sizes.dims("value")) d.collect_symbols(symbols);
    for (const std::string& s : symbols)
      if (const auto it = maker.find(s); it != maker.end()) out.emplace(it->second, reader);
  };
  for (size_t k = 0; k < regions.size(); ++k)
    for (const ir::Node* n : regions[k].nodes) {
      if (ops::states_sizes(*n)) note(*n, k);
      for (const ir::Value* v : n->inputs)
        if (v && v->producer && ops::states_sizes(*v->producer)) note(*v->producer, k);
    }
  return out;
}

}  // namespace

std::vector<Region> in_order(const ir::Graph& graph, std::vector<Region> regions) {
  std::unordered_map<const ir::Node*, size_t> unit;
  for (size_t k = 0; k < regions.size(); ++k)
    for (const ir::Node* n : regions[k].nodes) unit[n] = k;
  // A view belongs to no region: what feeds it feeds its users.
  auto source = [&](const ir::Value* v) {
    while (v && v->producer && !unit.contains(v->producer)) v = v->producer->in(0);
    return v ? v->producer : nullptr;
  };
  std::unordered_map<const ir::Node*, size_t> place;
  for (size_t k = 0; k < graph.nodes.size(); ++k) place[graph.nodes[k]] = k;
  std::vector<std::set<size_t>> users(regions.size());
  std::vector<size_t> waiting(regions.size(), 0);
  for (size_t k = 0; k < regions.size(); ++k) {
    for (const ir::Value* v : regions[k].inputs) {
      const ir::Node* p = source(v);
      if (p && unit.at(p) != k && users[unit.at(p)].insert(k).second) ++waiting[k];
    }
  }
  for (const auto& [before, after] : size_order(graph, regions))
    if (before != after && users[before].insert(after).second) ++waiting[after];
  std::set<std::pair<size_t, size_t>> ready;
  auto key = [&](size_t k) { return std::pair(place.at(regions[k].nodes.back()), k); };
  for (size_t k = 0; k < regions.size(); ++k)
    if (waiting[k] == 0) ready.insert(key(k));
  std::vector<Region> out;
  while (!ready.empty()) {
    const size_t k = ready.begin()->second;
    ready.erase(ready.begin());
    for (size_t u : users[k])
      if (--waiting[u] == 0) ready.insert(key(u));
    out.push_back(std::move(regions[k]));
  }
  PERI_CHECK(out.size() == regions.size(), "regions form a cycle");
  return out;
}

}  // namespace peri::lower
