// What a region may become while it is cut.
#include "lower/accepts.hpp"

#include <algorithm>

#include "exec/region/region_payload.hpp"

namespace peri::lower {

namespace {
bool has_own(const tune::Candidates& all, const Placement& placement) {
  return std::any_of(all.list.begin(), all.list.end(),
                     [&](const tune::Candidate& c) { return c.kernel->executor == placement.executor; });
}

// At the tuned dims and at the others.
bool everywhere(const Terms& terms, const Region& r, bool own) {
  const auto at = [&](const DimBinding& dims) {
    const auto concrete = exec::bind_region(region_graph(r), dims);
    if (!concrete.ok()) return false;
    return own ? has_own(terms.tuner.offers(*concrete, constant_inputs(r)), terms.backend.placement)
               : terms.tuner.accepted(*concrete, constant_inputs(r));
  };
  return at(terms.tuned_for) && std::all_of(terms.also.begin(), terms.also.end(), at);
}

}  // namespace

Accepts accepts_of(const Terms& terms) {
  return [&terms](const Region& r) {
    if (!terms.backend.placement.own_only) return everywhere(terms, r, false);
    if (everywhere(terms, r, true)) return true;
    Region first;
    first.nodes = {r.nodes.front()};
    close_region(terms.graph, &first);
    return !everywhere(terms, first, true) && everywhere(terms, r, false);
  };
}

}  // namespace peri::lower
