// A prong may move up if all it reads beside the stem's result is produced before the stem.
#include "lower/forks.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ops/entry.hpp"

namespace peri::lower {
namespace {

struct Finder {
  const ir::Graph& graph;
  const std::vector<Region>& cut;
  std::unordered_map<const ir::Node*, size_t> of = {};  // node -> its region

  // Whether regions before `place`, or nobody, make the value. Views belong to no region.
  bool made_before(const ir::Value* v, size_t place) const {
    while (v->producer && !of.contains(v->producer) && v->producer->in(0)) v = v->producer->in(0);
    return !v->producer || (of.contains(v->producer) && of.at(v->producer) < place);
  }
  // Whether `k` is a prong of the region that makes `v`, the stem.
  bool is_prong(size_t k, size_t stem, const ir::Value* v) const {
    const Region& r = cut[k];
    const auto inside = [&](const ir::Node* u) { return of.contains(u) && of.at(u) == k; };
    const auto elementwise = [](const ir::Node* n) { return ops::is(*n, &ops::OpDef::elementwise); };
    if (k <= stem || r.outputs.size() != 1 || !std::all_of(r.nodes.begin(), r.nodes.end(), elementwise)) return false;
    // One that nobody reads beside it is a neighbour.
    if (!graph.is_output(v) && std::all_of(v->users.begin(), v->users.end(), inside)) return false;
    return std::all_of(r.inputs.begin(), r.inputs.end(),
                       [&](const ir::Value* in) { return in == v || made_before(in, stem); });
  }
};
}  // namespace

std::vector<Fork> bring_forks(const ir::Graph& graph, const std::function<bool(const Region&, const Region&)>& stands,
                              std::vector<Region>* cut) {
  Finder f{graph, *cut};
  for (size_t k = 0; k < cut->size(); ++k)
    for (const ir::Node* n : (*cut)[k].nodes) f.of[n] = k;
  std::vector<std::optional<size_t>> prong(cut->size());  // of a stem
  std::vector<bool> moved(cut->size());
  for (size_t k = 0; k < cut->size(); ++k) {
    const Region& stem = (*cut)[k];
    if (moved[k] || stem.outputs.size() != 1 || !ops::is_anchor(*stem.nodes.front())) continue;
    for (const ir::Node* u : stem.outputs[0]->users) {
      const auto it = f.of.find(u);
      if (it == f.of.end() || moved[it->second] || !f.is_prong(it->second, k, stem.outputs[0]) ||
          !stands(stem, (*cut)[it->second]))
        continue;
      prong[k] = it->second;
      moved[it->second] = true;
      break;
    }
  }
  std::vector<Region> ordered;
  std::vector<Fork> out;
  for (size_t k = 0; k < cut->size(); ++k) {
    if (moved[k]) continue;
    ordered.push_back(std::move((*cut)[k]));
    if (!prong[k]) continue;
    out.push_back({ordered.size() - 1, ordered.size()});
    ordered.push_back(std::move((*cut)[*prong[k]]));
  }
  *cut = std::move(ordered);
  return out;
}

}  // namespace peri::lower
