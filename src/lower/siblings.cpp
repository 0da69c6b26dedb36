// A sibling may move up where all that feeds it stands before the first one.
#include "lower/siblings.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ops/entry.hpp"

namespace peri::lower {
namespace {

// Where regions stand while siblings move up: each behind the one that leads its group, else where it was cut.
struct Places {
  std::unordered_map<const ir::Node*, size_t> of;  // node -> its region as it was cut
  std::vector<size_t> leader;                      // of a region's group; itself if it has not moved

  explicit Places(const std::vector<Region>& cut) {
    for (size_t k = 0; k < cut.size(); ++k) {
      leader.push_back(k);
      for (const ir::Node* n : cut[k].nodes) of[n] = k;
    }
  }
  // Whether the region reads only what graph inputs and regions before `place` make. Views belong to no region.
  bool fed_before(const Region& r, size_t place) const {
    return std::all_of(r.inputs.begin(), r.inputs.end(), [&](const ir::Value* v) {
      while (v->producer && !of.contains(v->producer) && v->producer->in(0)) v = v->producer->in(0);
      return !v->producer || (of.contains(v->producer) && leader[of.at(v->producer)] < place);
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
  const auto able = [&](const Region& r) {
    return ops::is_anchor(*r.nodes.front()) && r.nodes.front()->in(0) && r.outputs.size() == 1 && !reads_sizes(r) &&
           !r.nodes.front()->in(0)->constant;
  };
  Places places(*cut);
  // Regions by the op they begin with and the value that it reads, in order.
  std::map<std::pair<const ir::Value*, std::string_view>, std::vector<size_t>> alike;
  for (size_t k = 0; k < cut->size(); ++k)
    if (const ir::Node& n = *(*cut)[k].nodes.front(); able((*cut)[k])) alike[{n.in(0), n.op}].push_back(k);
  std::vector<std::vector<size_t>> groups(cut->size());  // by leader: those that move up to it
  for (size_t first = 0; first < cut->size(); ++first) {
    const ir::Node& anchor = *(*cut)[first].nodes.front();
    const auto it = alike.find({anchor.in(0), anchor.op});
    if (places.leader[first] != first || it == alike.end()) continue;
    const std::vector<size_t>& list = it->second;
    auto at = std::lower_bound(list.begin(), list.end(), first);
    if (at == list.end() || *at != first) continue;
    while (++at != list.end() && groups[first].size() + 1 < kMaxSiblings)
      if (places.leader[*at] == *at && places.fed_before((*cut)[*at], first)) groups[first].push_back(*at);
    for (const size_t k : groups[first]) places.leader[k] = first;
  }
  std::vector<std::pair<size_t, size_t>> out;
  std::vector<Region> ordered;
  for (size_t k = 0; k < cut->size(); ++k) {
    if (places.leader[k] != k) continue;
    const size_t first = ordered.size();
    ordered.push_back(std::move((*cut)[k]));
    for (const size_t sibling : groups[k]) ordered.push_back(std::move((*cut)[sibling]));
    if (!groups[k].empty()) out.emplace_back(first, ordered.size());
  }
  *cut = std::move(ordered);
  return out;
}

}  // namespace peri::lower
