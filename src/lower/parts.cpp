// Splits and joins of a cut.
#include "lower/parts.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lower/siblings.hpp"

namespace peri::lower {
namespace {

struct Maker {
  const ir::Graph& graph;
  const PartRules& rules;
  std::unordered_map<const ir::Node*, size_t> order;
  Parts out;

  Region region(std::vector<ir::Node*> nodes) const {
    std::sort(nodes.begin(), nodes.end(), [&](auto* a, auto* b) { return order.at(a) < order.at(b); });
    Region r;
    r.nodes = std::move(nodes);
    close_region(graph, &r);
    return r;
  }

  // Atoms from `from` to before `to`, counted from the region's first one.
  static std::vector<int> atoms(int first, size_t from, size_t to) {
    std::vector<int> list;
    for (size_t k = from; k < to; ++k) list.push_back(first + static_cast<int>(k));
    return list;
  }

  // The region with the splits that the rules want.
  void add(Region whole) {
    struct Split {
      Region first, rest;
      std::vector<const kernels::Kernel*> kernels;
    };
    std::vector<Split> splits;
    for (const std::vector<ir::Node*>& beginning : whole.prefixes) {
      const std::unordered_set<const ir::Node*> first(beginning.begin(), beginning.end());
      std::vector<ir::Node*> behind;
      for (ir::Node* n : whole.nodes)
        if (!first.contains(n)) behind.push_back(n);
      Split split = {region(beginning), region(std::move(behind)), {}};
      if (auto kernels = rules.splits(split.first, split.rest, whole)) {
        split.kernels = std::move(*kernels);
        splits.push_back(std::move(split));
      }
    }
    const size_t count = splits.size() + 1, at = out.list.size();
    out.list.push_back({std::move(whole), atoms(out.atoms, 0, count), true, {}, {}});
    for (size_t k = 0; k < splits.size(); ++k) {
      out.list.push_back({std::move(splits[k].rest), atoms(out.atoms, k + 1, count), false, {}, {}});
      out.list.push_back({std::move(splits[k].first), atoms(out.atoms, 0, k + 1), false, at, out.list.size() - 1,
                          std::move(splits[k].kernels)});
    }
    out.atoms += static_cast<int>(count);
  }

  // The regions at [first, end) of the cut as one; `wholes`: the part of each region of the cut.
  void add_siblings(const std::vector<size_t>& wholes, size_t first, size_t end) {
    std::vector<ir::Node*> nodes;
    std::vector<int> of;
    for (size_t k = first; k < end; ++k) {
      const Part& p = out.list[wholes[k]];
      nodes.insert(nodes.end(), p.region.nodes.begin(), p.region.nodes.end());
      of.insert(of.end(), p.atoms.begin(), p.atoms.end());
    }
    Region all = region(std::move(nodes));
    if (rules.joins(all)) out.list.push_back({std::move(all), std::move(of), false, {}, {}});
  }

  // Joins of the parts for whole regions, which are the first `cut.size()` greedy ones.
  void add_joins() {
    std::unordered_map<const ir::Node*, size_t> owner;
    const size_t parts = out.list.size();
    for (size_t k = 0; k < parts; ++k)
      if (out.list[k].greedy)
        for (const ir::Node* n : out.list[k].region.nodes) owner[n] = k;
    for (size_t k = 0; k < parts; ++k) {
      const Region& a = out.list[k].region;
      if (!out.list[k].greedy || a.outputs.size() != 1 || graph.is_output(a.outputs[0])) continue;
      std::unordered_set<size_t> readers;
      bool all = true;
      for (const ir::Node* u : a.outputs[0]->users) {
        const auto it = owner.find(u);
        all = all && it != owner.end();
        if (all) readers.insert(it->second);
      }
      if (!all || readers.size() != 1) continue;
      const Part& b = out.list[*readers.begin()];
      std::vector<ir::Node*> nodes = a.nodes;
      nodes.insert(nodes.end(), b.region.nodes.begin(), b.region.nodes.end());
      Region both = region(std::move(nodes));
      if (!rules.joins(both)) continue;
      std::vector<int> of = out.list[k].atoms;
      of.insert(of.end(), b.atoms.begin(), b.atoms.end());
      std::sort(of.begin(), of.end());
      out.list.push_back({std::move(both), std::move(of), false, {}, {}});
    }
  }
};

bool locked(const plan::LockReader& lock, const Region& r) { return lock.has(region_key(r), region_name(r)); }
}  // namespace

Parts parts_of(const ir::Graph& graph, std::vector<Region> cut, const PartRules& rules) {
  Maker m{graph, rules, {}, {}};
  for (size_t k = 0; k < graph.nodes.size(); ++k) m.order[graph.nodes[k]] = k;
  const auto groups = bring_together(&cut);
  std::vector<size_t> wholes;
  for (Region& r : cut) {
    wholes.push_back(m.out.list.size());
    m.add(std::move(r));
  }
  m.add_joins();
  for (const auto& [first, end] : groups) m.add_siblings(wholes, first, end);
  return std::move(m.out);
}

PartRules locked_rules(const plan::LockReader& lock) {
  return {[&](const Region& beginning, const Region& rest, const Region&) {
            const bool both = locked(lock, beginning) && locked(lock, rest);
            return both ? std::optional(std::vector<const kernels::Kernel*>()) : std::nullopt;
          },
          [&](const Region& both) { return locked(lock, both); }};
}

Parts locked_parts(const ir::Graph& graph, const plan::LockReader& lock, Parts parts) {
  std::vector<Region> kept;
  std::vector<bool> covered(static_cast<size_t>(parts.atoms));
  const auto is_covered = [&](int atom) { return covered[static_cast<size_t>(atom)]; };
  for (int atom = 0; atom < parts.atoms; ++atom) {
    if (is_covered(atom)) continue;
    // The largest that the lock has, else the one of the cut.
    Part* best = nullptr;
    bool best_locked = false;
    for (Part& p : parts.list) {
      if (p.atoms.front() != atom || std::any_of(p.atoms.begin(), p.atoms.end(), is_covered)) continue;
      const bool has = locked(lock, p.region);
      const bool better = !best || (has != best_locked ? has : has ? p.atoms.size() > best->atoms.size() : p.greedy);
      if (better) best = &p, best_locked = has;
    }
    PERI_CHECK(best, "no region is left for a part of the graph");
    for (int a : best->atoms) covered[static_cast<size_t>(a)] = true;
    kept.push_back(std::move(best->region));
  }
  Parts out;
  for (Region& r : in_order(graph, std::move(kept))) out.list.push_back({std::move(r), {out.atoms++}, true, {}, {}});
  return out;
}

}  // namespace peri::lower
