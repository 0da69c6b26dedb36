// Splits and joins of the regions of a cut.
#include "lower/parts.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "lower/attentions.hpp"
#include "lower/forks.hpp"
#include "lower/siblings.hpp"

namespace peri::lower {
namespace {

constexpr size_t kMaxRow = 4;  // regions one behind the other: a squeeze-and-excite block

// How a region of the cut may come apart behind one of its beginnings.
struct Split {
  size_t at = 0;  // which of the region's prefixes
  std::vector<ir::Node*> first, rest;
  bool apart = false;                            // the rules want the two by themselves
  std::vector<const kernels::Kernel*> kernels;   // for whose sake
  bool joins_first = false, joins_rest = false;  // one of the two is joined with a neighbour, the other is by itself
  bool with_siblings = false;                    // the beginning is joined with siblings
  bool wanted() const { return apart || joins_first || joins_rest || with_siblings; }
};

// A region of the cut and the parts it may stand in.
struct Whole {
  Region region;
  std::vector<Split> splits;
  size_t part = 0;                              // of all of it
  std::vector<int> atoms = {};                  // one more than there are splits
  std::optional<size_t> reader = std::nullopt;  // the only region that reads its only result
  // Atoms before split `k` and from there on; none of `k`: all.
  std::vector<int> before(std::optional<size_t> k) const {
    return {atoms.begin(), k ? atoms.begin() + static_cast<std::ptrdiff_t>(*k) + 1 : atoms.end()};
  }
  std::vector<int> behind(std::optional<size_t> k) const {
    return {k ? atoms.begin() + static_cast<std::ptrdiff_t>(*k) + 1 : atoms.begin(), atoms.end()};
  }
};

// How much of a region stands in a group: up to one of its prefixes, or all of it.
struct Member {
  size_t region;
  std::optional<size_t> prefix;
};
// Siblings, and what of them may stand as one.
struct Group {
  std::vector<Sibling> siblings;
  std::vector<std::vector<Member>> together;
  bool stands_whole(size_t region) const {
    const auto here = [&](const Member& m) { return m.region == region && !m.prefix; };
    return std::any_of(together.begin(), together.end(),
                       [&](const auto& list) { return std::any_of(list.begin(), list.end(), here); });
  }
  bool has_beginnings() const {
    return std::any_of(together.begin(), together.end(), [](const std::vector<Member>& list) {
      return std::any_of(list.begin(), list.end(), [](const Member& m) { return m.prefix.has_value(); });
    });
  }
};

template <class T>
std::vector<T> both(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Maker {
  const ir::Graph& graph;
  const PartRules& rules;
  std::unordered_map<const ir::Node*, size_t> order = {};
  std::vector<Whole> wholes = {};
  std::vector<Group> groups = {};
  Parts out = {};

  Region region(std::vector<ir::Node*> nodes) const {
    std::sort(nodes.begin(), nodes.end(), [&](auto* a, auto* b) { return order.at(a) < order.at(b); });
    Region r;
    r.nodes = std::move(nodes);
    close_region(graph, &r);
    return r;
  }
  static bool may_join(const std::vector<ir::Node*>& nodes) {
    return std::none_of(nodes.begin(), nodes.end(), [](const ir::Node* n) { return stands_alone(*n); });
  }
  bool stands(const std::vector<ir::Node*>& nodes) const {
    return (nodes.size() < 2 || may_join(nodes)) && rules.joins(region(nodes));
  }

  // All ways in which the region comes apart, and those that the rules want.
  void take(Region r) {
    Whole w{std::move(r), {}};
    for (const std::vector<ir::Node*>& beginning : w.region.prefixes) {
      const std::unordered_set<const ir::Node*> first(beginning.begin(), beginning.end());
      Split s;
      s.at = w.splits.size();
      s.first = beginning;
      for (ir::Node* n : w.region.nodes)
        if (!first.contains(n)) s.rest.push_back(n);
      auto kernels = rules.splits(region(s.first), region(s.rest), w.region);
      s.apart = kernels.has_value();
      if (kernels) s.kernels = std::move(*kernels);
      w.splits.push_back(std::move(s));
    }
    wholes.push_back(std::move(w));
  }

  void find_readers() {
    std::unordered_map<const ir::Node*, size_t> owner;
    for (size_t k = 0; k < wholes.size(); ++k)
      for (const ir::Node* n : wholes[k].region.nodes) owner[n] = k;
    for (Whole& w : wholes) {
      const std::vector<ir::Value*>& results = w.region.outputs;
      if (results.size() != 1 || graph.is_output(results[0])) continue;
      std::unordered_set<size_t> readers;
      bool all = true;
      for (const ir::Node* u : results[0]->users) {
        const auto it = owner.find(u);
        all = all && it != owner.end();
        if (all) readers.insert(it->second);
      }
      if (all && readers.size() == 1) w.reader = *readers.begin();
    }
  }

  // Whether the beginning of a region reads all that anybody reads of `v`.
  static bool alone_reads(const std::vector<ir::Node*>& beginning, const ir::Value* v) {
    return std::all_of(v->users.begin(), v->users.end(), [&](const ir::Node* u) {
      return std::find(beginning.begin(), beginning.end(), u) != beginning.end();
    });
  }

  // A region joined with the beginning of its reader, whose rest stands alone, and the rest of a region, whose
  // beginning stands alone, with its reader; where every way is asked for, the beginning may stand with siblings.
  void find_joins() {
    for (Whole& a : wholes) {
      if (!a.reader) continue;
      Whole& b = wholes[*a.reader];
      if (!rules.every && stands(both(a.region.nodes, b.region.nodes))) continue;
      for (Split& s : b.splits)
        if (alone_reads(s.first, a.region.outputs[0]) && stands(both(a.region.nodes, s.first)))
          s.joins_first = s.joins_first || stands(s.rest);
      for (Split& s : a.splits)
        if (stands(both(s.rest, b.region.nodes))) s.joins_rest = s.joins_rest || rules.every || stands(s.first);
    }
  }

  std::vector<ir::Node*> nodes_of(const Member& m) const {
    const Whole& w = wholes[m.region];
    return m.prefix ? w.splits[*m.prefix].first : w.region.nodes;
  }
  bool stand(const std::vector<Member>& list) const {
    std::vector<ir::Node*> nodes;
    for (const Member& m : list) nodes = both(std::move(nodes), nodes_of(m));
    return stands(nodes);
  }
  // How a sibling may stand in a group: by a beginning whose rest may stand alone, the shortest first, and whole.
  std::vector<Member> ways_of(const Sibling& s) const {
    std::vector<Member> out;
    for (const Split& split : wholes[s.region].splits)
      if (split.at < s.beginnings && (split.apart || stands(split.rest) || (rules.every && split.joins_rest)))
        out.push_back({s.region, split.at});
    if (s.whole) out.push_back({s.region, std::nullopt});
    return out;
  }

  // What of some siblings stands as one: all of all, else of each as much as does beside the others: first the shortest
  // of each, which is then extended in turn. Where every way is asked for, all of them, unless they are too many.
  void find_together(const std::vector<Sibling>& some, Group* g) {
    std::vector<std::vector<Member>> ways;
    size_t count = 1;
    for (const Sibling& s : some) ways.push_back({{s.region, std::nullopt}});
    const auto nth = [&](size_t n) {
      std::vector<Member> out;
      for (const std::vector<Member>& w : ways) {
        out.push_back(w[n % w.size()]);
        n /= w.size();
      }
      return out;
    };
    const bool whole = std::all_of(some.begin(), some.end(), [](const Sibling& s) { return s.whole; });
    const bool all = whole && stand(nth(0));
    if (all) g->together.push_back(nth(0));
    if (all && !rules.every) return;
    for (size_t k = 0; k < some.size(); ++k) {
      ways[k] = ways_of(some[k]);
      count = std::min(kMaxWaysTogether + 1, count * ways[k].size());
    }
    if (count == 0 || (whole && count == 1)) return;  // one way: all of all
    if (rules.every && count <= kMaxWaysTogether) {
      for (size_t n = 0; n + whole < count; ++n)  // the last is all of all
        if (stand(nth(n))) g->together.push_back(nth(n));
      return;
    }
    std::vector<Member> list = nth(0);
    if (!stand(list)) return;
    for (size_t k = 0; k < some.size(); ++k)
      for (size_t way = ways[k].size(); way-- > 1;) {
        std::vector<Member> longer = list;
        longer[k] = ways[k][way];
        if (!stand(longer)) continue;
        list = std::move(longer);
        break;
      }
    g->together.push_back(std::move(list));
  }

  // Some of the siblings of a group, or of many those side by side.
  void find_siblings(std::vector<Sibling> siblings) {
    Group g = {std::move(siblings), {}};
    const size_t count = g.siblings.size();
    for (uint64_t some = (uint64_t{1} << count) - 1; some > 0; --some) {
      const bool row = ((some + (some & -some)) & some) == 0;  // side by side
      if (std::popcount(some) < 2 || (count > kMaxAnySiblings && !row)) continue;
      std::vector<Sibling> taken;
      for (size_t k = 0; k < count; ++k)
        if (some >> k & 1) taken.push_back(g.siblings[k]);
      find_together(taken, &g);
    }
    for (const std::vector<Member>& list : g.together)
      for (const Member& m : list)
        if (m.prefix) wholes[m.region].splits[*m.prefix].with_siblings = true;
    groups.push_back(std::move(g));
  }

  void drop_unwanted() {
    for (Whole& w : wholes) {
      std::erase_if(w.splits, [](const Split& s) { return !s.wanted(); });
      w.atoms.assign(w.splits.size() + 1, -1);
    }
  }

  // Siblings of which a beginning stands with others come as far as they run together, and what is behind that: of each
  // all atoms but the last, then the lasts, since a rest runs where its last atom is; those first that stand whole with
  // others, before whose last atom no group with them runs.
  void number_group(const Group& g) {
    for (const Sibling& s : g.siblings) {
      Whole& w = wholes[s.region];
      const auto here = [&](const Split& split) { return s.whole || split.at < s.beginnings; };
      const auto count = std::count_if(w.splits.begin(), w.splits.end(), here);
      for (auto it = w.atoms.begin(); it != w.atoms.begin() + count; ++it) *it = out.atoms++;
    }
    for (const bool with_others : {true, false})
      for (const Sibling& s : g.siblings)
        if (int& last = wholes[s.region].atoms.back(); s.whole && last < 0 && g.stands_whole(s.region) == with_others)
          last = out.atoms++;
  }
  void number() {
    std::unordered_map<size_t, const Group*> led;
    for (const Group& g : groups)
      if (g.has_beginnings()) led[g.siblings.front().region] = &g;
    for (size_t k = 0; k < wholes.size(); ++k) {
      if (const auto it = led.find(k); it != led.end()) number_group(*it->second);
      for (int& atom : wholes[k].atoms)
        if (atom < 0) atom = out.atoms++;
    }
  }

  size_t add(Region r, std::vector<int> atoms) {
    std::sort(atoms.begin(), atoms.end());
    out.list.push_back({std::move(r), std::move(atoms)});
    return out.list.size() - 1;
  }

  // The region by itself, and its beginnings and rests by themselves.
  void add_whole(Whole* w) {
    w->part = add(w->region, w->atoms);
    out.list[w->part].greedy = true;
    for (size_t k = 0; k < w->splits.size(); ++k) {
      Split& s = w->splits[k];
      const size_t rest = add(region(s.rest), w->behind(k));
      Part& first = out.list[add(region(s.first), w->before(k))];
      first.whole = w->part;
      first.rest = rest;
      first.joined = s.joins_rest;
      if (!s.joins_rest) first.kernels = std::move(s.kernels);
    }
  }

  // Each region, or a rest of it, with the one that alone reads it, or a beginning of that; and whole ones with up to
  // three behind them, each of which alone reads the one before.
  void add_joins() {
    for (const Whole& a : wholes) {
      if (!a.reader) continue;
      const Whole& b = wholes[*a.reader];
      if (!may_join(a.region.nodes) || !may_join(b.region.nodes)) continue;
      Region all = region(both(a.region.nodes, b.region.nodes));
      const bool whole = rules.joins(all);
      if (whole) add(std::move(all), both(a.atoms, b.atoms));
      std::vector<ir::Node*> row = both(a.region.nodes, b.region.nodes);
      std::vector<int> atoms = both(a.atoms, b.atoms);
      const Whole* last = &b;
      for (size_t count = 3; count <= kMaxRow && last->reader; ++count) {
        last = &wholes[*last->reader];
        if (!may_join(last->region.nodes)) break;
        row = both(std::move(row), last->region.nodes);
        atoms = both(std::move(atoms), last->atoms);
        if (Region more = region(row); rules.joins(more)) add(std::move(more), atoms);
      }
      if (whole && !rules.every) continue;
      for (size_t i = 0; i <= a.splits.size(); ++i)
        for (size_t j = i == 0 ? 1 : 0; j <= b.splits.size(); ++j) {
          const auto from = i ? std::optional(i - 1) : std::nullopt, to = j ? std::optional(j - 1) : std::nullopt;
          const std::vector<ir::Node*>&left = from ? a.splits[*from].rest : a.region.nodes,
                &right = to ? b.splits[*to].first : b.region.nodes;
          if (to && !alone_reads(right, a.region.outputs[0])) continue;
          Region joined = region(both(left, right));
          if (rules.joins(joined)) add(std::move(joined), both(a.behind(from), b.before(to)));
        }
    }
  }

  void add_attentions() {
    std::vector<const Region*> cut;
    std::vector<std::optional<size_t>> readers;
    for (const Whole& w : wholes) {
      cut.push_back(&w.region);
      readers.push_back(w.reader);
    }
    for (const std::vector<size_t>& group : attentions(cut, readers)) {
      std::vector<ir::Node*> nodes;
      std::vector<int> atoms;
      for (const size_t k : group) {
        nodes = both(std::move(nodes), wholes[k].region.nodes);
        atoms = both(std::move(atoms), wholes[k].atoms);
      }
      if (stands(nodes)) add(region(std::move(nodes)), std::move(atoms));
    }
  }

  // By nodes of each, since siblings move regions.
  void add_fork(const ir::Node* stem, const ir::Node* prong) {
    const auto holds = [](const ir::Node* n) { return [n](const Whole& w) { return w.region.nodes.front() == n; }; };
    const auto a = std::find_if(wholes.begin(), wholes.end(), holds(stem)),
               b = std::find_if(wholes.begin(), wholes.end(), holds(prong));
    add(region(both(a->region.nodes, b->region.nodes)), both(a->atoms, b->atoms));
  }

  void add_siblings(const std::vector<Member>& list) {
    std::vector<ir::Node*> nodes;
    std::vector<int> atoms;
    for (const Member& m : list) {
      const Whole& w = wholes[m.region];
      const auto split =
          std::find_if(w.splits.begin(), w.splits.end(), [&](const Split& s) { return m.prefix == s.at; });
      nodes = both(std::move(nodes), m.prefix ? split->first : w.region.nodes);
      const auto last = m.prefix ? std::optional(static_cast<size_t>(split - w.splits.begin())) : std::nullopt;
      atoms = both(std::move(atoms), w.before(last));
    }
    add(region(std::move(nodes)), std::move(atoms));
  }
};
}  // namespace

Parts parts_of(const ir::Graph& graph, std::vector<Region> cut, const PartRules& rules) {
  Maker m{graph, rules};
  m.order = places(graph);
  std::vector<std::pair<const ir::Node*, const ir::Node*>> forks;
  const auto as_one = [&](const Region& a, const Region& b) { return m.stands(both(a.nodes, b.nodes)); };
  for (const Fork& f : bring_forks(graph, as_one, &cut))
    forks.emplace_back(cut[f.stem].nodes.front(), cut[f.prong].nodes.front());
  std::vector<std::vector<Sibling>> groups = bring_together(&cut);
  for (Region& r : cut) m.take(std::move(r));
  m.find_readers();
  m.find_joins();
  for (std::vector<Sibling>& g : groups) m.find_siblings(std::move(g));
  m.drop_unwanted();
  m.number();
  for (Whole& w : m.wholes) m.add_whole(&w);
  m.add_joins();
  m.add_attentions();
  for (const auto& [stem, prong] : forks) m.add_fork(stem, prong);
  for (const Group& g : m.groups)
    for (const std::vector<Member>& list : g.together) m.add_siblings(list);
  return std::move(m.out);
}

}  // namespace peri::lower
