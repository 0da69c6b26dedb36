// What a region may become while it is cut.
#include "lower/accepts.hpp"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "exec/region/region_payload.hpp"
#include "problem/problem.hpp"

namespace peri::lower {

namespace {
bool has_own(const tune::Candidates& all, const Placement& placement) {
  return std::any_of(all.list.begin(), all.list.end(),
                     [&](const tune::Candidate& c) { return c.kernel->executor == placement.executor; });
}

// Answers about regions, by their text: a chain is cut anew with each node that joins it, and long models repeat
// theirs.
class Asked {
 public:
  explicit Asked(const Terms& terms) : terms_(terms) {}
  // At the tuned dims and at the others.
  bool everywhere(const Region& r, bool own) {
    const ir::Graph graph = region_graph(r);
    const std::vector<bool> constant = constant_inputs(r);
    std::string key = (own ? "own " : "any ") + problem::identity(graph, constant);
    for (const ir::Value* v : graph.inputs)  // of which the text has only the type
      if (v->content) key += "; " + v->name + " holds " + shape_text(*v->content);
    const auto [known, fresh] = known_.emplace(std::move(key), false);
    if (fresh) known->second = ask(graph, constant, own);
    return known->second;
  }
  bool everywhere_or_first(const Region& r) {
    if (!terms_.backend.placement.own_only) return everywhere(r, false);
    if (everywhere(r, true)) return true;
    Region first;
    first.nodes = {r.nodes.front()};
    close_region(terms_.graph, &first);
    return !everywhere(first, true) && everywhere(r, false);
  }

 private:
  bool ask(const ir::Graph& graph, const std::vector<bool>& constant, bool own) const {
    const auto at = [&](const DimBinding& dims) {
      const auto concrete = exec::bind_region(graph, dims);
      if (!concrete.ok()) return false;
      return own ? has_own(terms_.tuner.offers(*concrete, constant), terms_.backend.placement)
                 : terms_.tuner.accepted(*concrete, constant);
    };
    return at(terms_.tuned_for) && std::all_of(terms_.also.begin(), terms_.also.end(), at);
  }

  const Terms& terms_;
  std::unordered_map<std::string, bool> known_;
};
}  // namespace

Accepts accepts_of(const Terms& terms) {
  return [asked = std::make_shared<Asked>(terms)](const Region& r) { return asked->everywhere_or_first(r); };
}

}  // namespace peri::lower
