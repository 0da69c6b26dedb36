// A sibling may move up where all that feeds it stands before the first one.
#include "lower/siblings.hpp"

#include <algorithm>
#include <unordered_map>

#include "ops/entry.hpp"

namespace peri::lower {
namespace {

struct Places {
  std::unordered_map<const ir::Node*, size_t> of;  // node -> place of its region

  explicit Places(const std::vector<Region>& cut) {
    for (size_t k = 0; k < cut.size(); ++k)
      for (const ir::Node* n : cut[k].nodes) of[n] = k;
  }
  // Whether the region reads only what graph inputs and regions before `place` make. Views belong to no region.
  bool fed_before(const Region& r, size_t place) const {
    return std::all_of(r.inputs.begin(), r.inputs.end(), [&](const ir::Value* v) {
      while (v->producer && !of.contains(v->producer) && v->producer->in(0)) v = v->producer->in(0);
      return !v->producer || (of.contains(v->producer) && of.at(v->producer) < place);
    });
  }
};

// A region that reads sizes may have to wait for data that decides them.
bool reads_sizes(const Region& r) {
  return std::any_of(r.nodes.begin(), r.nodes.end(), [](const ir::Node* n) {
    return is_sizes(*n) || std::any_of(n->inputs.begin(), n->inputs.end(),
                                       [](const ir::Value* v) { return v && v->producer && is_sizes(*v->producer); });
  });
}
}  // namespace

std::vector<std::pair<size_t, size_t>> bring_together(std::vector<Region>* cut) {
  std::vector<std::pair<size_t, size_t>> out;
  const auto able = [&](const Region& r) {
    return ops::is_anchor(*r.nodes.front()) && r.nodes.front()->in(0) && r.outputs.size() == 1 && !reads_sizes(r) &&
           !r.nodes.front()->in(0)->constant;
  };
  for (size_t first = 0; first + 1 < cut->size(); ++first) {
    const ir::Node& anchor = *(*cut)[first].nodes.front();
    if (!able((*cut)[first]) || anchor.in(0)->users.size() < 2) continue;
    const Places places(*cut);
    std::vector<size_t> group = {first};
    for (size_t k = first + 1; k < cut->size() && group.size() < kMaxSiblings; ++k) {
      const Region& r = (*cut)[k];
      const bool same = r.nodes.front()->op == anchor.op && r.nodes.front()->in(0) == anchor.in(0);
      if (same && able(r) && places.fed_before(r, first)) group.push_back(k);
    }
    if (group.size() < 2) continue;
    for (size_t n = 1; n < group.size(); ++n) {
      const auto from = cut->begin() + static_cast<std::ptrdiff_t>(group[n]);
      std::rotate(cut->begin() + static_cast<std::ptrdiff_t>(first + n), from, from + 1);
    }
    out.emplace_back(first, first + group.size());
    first += group.size() - 1;
  }
  return out;
}

}  // namespace peri::lower
