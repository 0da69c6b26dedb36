// The choice between two regions and one.
#include "backends/cpu/join.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "backends/cpu/cover.hpp"
#include "exec/core/region_payload.hpp"

namespace peri::backends::cpu {
namespace {

// A joint kernel has to win by more than two measurements of the same thing differ.
constexpr double kWin = 0.97;

struct Joiner {
  const ir::Graph& graph;
  tune::Tuner& tuner;
  const DimBinding& tuned_for;
  std::span<const DimBinding> also;
  const RefusedChoices& refused;
  const plan::LockReader& lock;
  std::unordered_map<const ir::Node*, size_t> order;

  Region joint(const Region& a, const Region& b) const {
    Region r;
    r.nodes = a.nodes;
    r.nodes.insert(r.nodes.end(), b.nodes.begin(), b.nodes.end());
    std::sort(r.nodes.begin(), r.nodes.end(), [&](auto* x, auto* y) { return order.at(x) < order.at(y); });
    close_region(graph, &r);
    return r;
  }

  // Best measured time of the candidates that hold at other dims too; none where there is no such candidate.
  std::optional<double> best_ms(const Region& r) const {
    std::vector<ir::Graph> elsewhere;
    for (const DimBinding& dims : also) {
      auto there = exec::bind_region(region_graph(r), dims);
      if (!there.ok()) return std::nullopt;
      elsewhere.push_back(std::move(there).value());
    }
    const auto all = candidates_of(r, tuned_for, also, &tuner);
    if (!all.ok()) return std::nullopt;
    std::optional<double> best;
    const std::string key = region_key(r);
    for (const tune::Candidate& c : (*all)->list)
      if (c.evidence.right() && c.evidence.timed() && (!best || c.evidence.time_ms < *best) &&
          refused_choice(refused, key, c).empty() &&
          std::all_of(elsewhere.begin(), elsewhere.end(),
                      [&](const ir::Graph& g) { return tuner.offered(c, g, constant_inputs(r)); }))
        best = c.evidence.time_ms;
    return best;
  }

  bool accepted(const Region& r) const {
    const auto here = exec::bind_region(region_graph(r), tuned_for);
    return here.ok() && tuner.accepted(*here, constant_inputs(r));
  }

  bool worth_it(const Region& a, const Region& b, const Region& both) const {
    if (lock.locked()) return lock.has(region_key(both));
    if (!tuner.options().measure || !accepted(both)) return false;
    const auto one = best_ms(a), two = best_ms(b), together = best_ms(both);
    return one && two && together && *together < kWin * (*one + *two);
  }
};

}  // namespace

std::vector<Region> join_regions(const ir::Graph& graph, std::vector<Region> regions, tune::Tuner& tuner,
                                 const DimBinding& tuned_for, std::span<const DimBinding> also,
                                 const RefusedChoices& refused, const plan::LockReader& lock) {
  Joiner j{graph, tuner, tuned_for, also, refused, lock, {}};
  for (size_t k = 0; k < graph.nodes.size(); ++k) j.order[graph.nodes[k]] = k;
  std::unordered_map<const ir::Node*, size_t> owner;
  for (size_t k = 0; k < regions.size(); ++k)
    for (const ir::Node* n : regions[k].nodes) owner[n] = k;
  std::vector<bool> gone(regions.size());
  for (size_t k = 0; k < regions.size(); ++k) {
    const Region& a = regions[k];
    if (gone[k] || a.outputs.size() != 1 || graph.is_output(a.outputs[0])) continue;
    const ir::Value* middle = a.outputs[0];
    // Only these have joint kernels so far; asking every kernel about every pair of a large graph would take seconds.
    const bool first = a.nodes[0]->op == "conv" || a.nodes[0]->op == "mul";
    const auto reader = middle->users.size() == 1 ? owner.find(middle->users[0]) : owner.end();
    if (reader == owner.end() || gone[reader->second] || !first || regions[reader->second].nodes[0]->op != "conv")
      continue;
    Region both = j.joint(a, regions[reader->second]);
    if (!j.worth_it(a, regions[reader->second], both)) continue;
    gone[k] = true;
    regions[reader->second] = std::move(both);
  }
  std::vector<Region> out;
  for (size_t k = 0; k < regions.size(); ++k)
    if (!gone[k]) out.push_back(std::move(regions[k]));
  return out;
}

}  // namespace peri::backends::cpu
