// Values spread from part to part.
#include "lower/beside.hpp"

#include <algorithm>
#include <set>

#include "exec/region/region_payload.hpp"
#include "tune/work.hpp"

namespace peri::lower {

std::vector<size_t> tried_beside(std::span<const Neighbour> parts) {
  std::set<const ir::Value*> reached;
  for (const Neighbour& p : parts)
    if (p.host_only) reached.insert(p.values.begin(), p.values.end());
  const auto touches = [&](const Neighbour& p) {
    return std::any_of(p.values.begin(), p.values.end(), [&](const ir::Value* v) { return reached.contains(v); });
  };
  std::vector<bool> tried(parts.size());
  for (size_t k = 0; k < parts.size(); ++k) tried[k] = !parts[k].host_only && touches(parts[k]);
  for (bool more = true; more;) {
    more = false;
    // Both ways in turn: a chain is passed at once, whichever way it runs.
    for (size_t n = 0; n < 2 * parts.size(); ++n) {
      const size_t k = n < parts.size() ? n : 2 * parts.size() - 1 - n;
      const Neighbour& p = parts[k];
      if (p.host_only || !p.light || !touches(p)) continue;
      tried[k] = true;
      for (const ir::Value* v : p.values) more = reached.insert(v).second || more;
    }
  }
  std::vector<size_t> out;
  for (size_t k = 0; k < parts.size(); ++k)
    if (tried[k]) out.push_back(k);
  return out;
}

bool is_light(const Terms& terms, const ir::Graph& region) {
  // Rates that every host exceeds: they bound what is tried, and the trial decides.
  constexpr double kFlopsPerMs = 2e6, kBytesPerMs = 2e6;
  if (!terms.backend.cross_ms) return false;
  const auto here = exec::bind_region(region, terms.tuned_for);
  if (!here.ok()) return false;
  const tune::RegionWork work = tune::work_of(*here, 0);
  return std::max(work.flops / kFlopsPerMs, work.bytes / kBytesPerMs) <= 2 * terms.backend.cross_ms(terms.tuner, 0);
}

}  // namespace peri::lower
