// A sibling may move up if everything it reads is produced before the first one.
#include "lower/siblings.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ops/entry.hpp"

namespace peri::lower {
namespace {

// Where regions stand while siblings move up: each behind the one that leads its group, else where it was cut.
struct Places {
  std::unordered_map<const ir::Node*, size_t> of;  // node -> its region as it was cut
  std::vector<size_t> leader;                      // of a region's group; itself if it has not moved
  std::vector<bool> by_beginning;                  // a sibling of another, and has not moved

  explicit Places(const std::vector<Region>& cut) : by_beginning(cut.size()) {
    for (size_t k = 0; k < cut.size(); ++k) {
      leader.push_back(k);
      for (const ir::Node* n : cut[k].nodes) of[n] = k;
    }
  }
  bool alone(size_t k) const { return leader[k] == k && !by_beginning[k]; }
  // Whether regions before `place`, or nobody, make the value. Views belong to no region.
  bool made_before(const ir::Value* v, size_t place) const {
    while (v->producer && !of.contains(v->producer) && v->producer->in(0)) v = v->producer->in(0);
    return !v->producer || (of.contains(v->producer) && leader[of.at(v->producer)] < place);
  }
  bool fed_before(const Region& r, size_t place) const {
    return std::all_of(r.inputs.begin(), r.inputs.end(), [&](const ir::Value* v) { return made_before(v, place); });
  }
  bool fed_before(const std::vector<ir::Node*>& beginning, size_t place) const {
    const std::unordered_set<const ir::Node*> inside(beginning.begin(), beginning.end());
    return std::all_of(beginning.begin(), beginning.end(), [&](const ir::Node* n) {
      return std::all_of(n->inputs.begin(), n->inputs.end(), [&](const ir::Value* v) {
        return !v || inside.contains(v->producer) || made_before(v, place);
      });
    });
  }
  // How the region may run at `place`.
  Sibling at(const Region& r, size_t k, size_t place) const {
    Sibling s = {k, fed_before(r, place), 0};
    while (s.beginnings < r.prefixes.size() && (s.whole || fed_before(r.prefixes[s.beginnings], place))) ++s.beginnings;
    return s;
  }
};

// A region that reads sizes may have to wait for data that decides them.
bool reads_sizes(const Region& r) {
  return std::any_of(r.nodes.begin(), r.nodes.end(), [](const ir::Node* n) {
    return ops::states_sizes(*n) || std::any_of(n->inputs.begin(), n->inputs.end(), [](const ir::Value* v) {
             return v && v->producer && ops::states_sizes(*v->producer);
           });
  });
}
}  // namespace

std::vector<std::vector<Sibling>> bring_together(std::vector<Region>* cut) {
  const auto able = [&](const Region& r) {
    return ops::is_anchor(*r.nodes.front()) && r.nodes.front()->in(0) && r.outputs.size() == 1 && !reads_sizes(r) &&
           !r.nodes.front()->in(0)->constant;
  };
  Places places(*cut);
  // Regions by the op they begin with and the value that it reads, in order.
  std::map<std::pair<const ir::Value*, std::string_view>, std::vector<size_t>> alike;
  for (size_t k = 0; k < cut->size(); ++k)
    if (const ir::Node& n = *(*cut)[k].nodes.front(); able((*cut)[k])) alike[{n.in(0), n.op}].push_back(k);
  std::vector<std::vector<Sibling>> groups(cut->size());  // by leader: itself, and those beside it
  for (size_t first = 0; first < cut->size(); ++first) {
    const ir::Node& anchor = *(*cut)[first].nodes.front();
    const auto it = alike.find({anchor.in(0), anchor.op});
    if (!places.alone(first) || it == alike.end()) continue;
    const std::vector<size_t>& list = it->second;
    auto at = std::lower_bound(list.begin(), list.end(), first);
    if (at == list.end() || *at != first) continue;
    std::vector<Sibling>& group = groups[first];
    group.push_back({first, true, (*cut)[first].prefixes.size()});
    while (++at != list.end() && group.size() < kMaxSiblings) {
      if (!places.alone(*at)) continue;
      if (const Sibling s = places.at((*cut)[*at], *at, first); s.whole || s.beginnings > 0) group.push_back(s);
    }
    for (const Sibling& s : group) {
      if (s.whole) places.leader[s.region] = first;
      places.by_beginning[s.region] = !s.whole;
    }
  }
  std::vector<size_t> now(cut->size());  // where each stands
  std::vector<Region> ordered;
  const auto put = [&](size_t k) {
    now[k] = ordered.size();
    ordered.push_back(std::move((*cut)[k]));
  };
  for (size_t k = 0; k < cut->size(); ++k) {
    if (places.leader[k] != k) continue;
    put(k);
    for (const Sibling& s : groups[k])
      if (s.whole && s.region != k) put(s.region);
  }
  std::vector<std::vector<Sibling>> out;
  for (std::vector<Sibling>& group : groups) {
    if (group.size() < 2) continue;
    for (Sibling& s : group) s.region = now[s.region];
    out.push_back(std::move(group));
  }
  *cut = std::move(ordered);
  return out;
}

}  // namespace peri::lower
