// Greedy cutting of regions in graph order: anchors with their epilogues first, then element-wise groups, then single
// nodes.
#include "lower/region.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "exec/region/region_payload.hpp"
#include "ir/bodies.hpp"
#include "kernels/weights/narrow.hpp"
#include "ops/entry.hpp"
#include "problem/problem.hpp"

namespace peri::lower {

bool stands_alone(const ir::Node& n) { return n.inputs.size() > kMaxOperands; }

namespace {
constexpr size_t kMaxEpilogue = 12;  // kernels are asked about each beginning of a chain
constexpr size_t kMaxJoined = 8;     // operands of what a product may take along; no epilogue has a sum of three yet
constexpr size_t kMaxGroup = 48;     // and about a group anew with each node that joins it

bool is_elementwise(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && op->elementwise && n.outputs.size() == 1 && !stands_alone(n);
}
// Whether the region computes shapes from the value. Not ops::says_sizes(), which looks at all of its readers: they may
// be ten thousand.
bool says_sizes_in(const Region& r, const ir::Value* v) {
  for (const ir::Node* n : r.nodes) {
    const ops::OpDef* op = ops::find(n->op);
    for (size_t port = 0; op && port < std::min(n->inputs.size(), op->inputs.size()); ++port)
      if (n->inputs[port] == v && op->inputs[port].sizes) return true;
  }
  return false;
}
// Values that live inside a region that reads them: small constants, strings, and sizes, also known as expressions.
bool small_constant(const Region& r, const ir::Value* v) {
  if (v->producer && ops::states_sizes(*v->producer)) return true;
  if (!v->constant) return false;
  const int64_t elements = v->constant->numel();
  if (elements <= kMaxInlineElements || elements > exec::kMaxTextElements) return elements <= kMaxInlineElements;
  return v->constant->dtype() == DType::kString || says_sizes_in(r, v);
}
bool is_view_op(const ir::Node& n) { return ops::is_view(n) && n.in(0) && n.in(0)->type.dtype != DType::kString; }
}  // namespace

bool widens_bytes(const ir::Node& n) { return ops::is(n, &ops::OpDef::widens); }

std::unordered_map<const ir::Node*, size_t> places(const ir::Graph& graph) {
  std::unordered_map<const ir::Node*, size_t> out;
  const auto place = [&](const ir::Node* n) { out.emplace(n, out.size()); };
  for (const ir::Node* n : graph.nodes) {
    if (widens_bytes(*n) && !n->out()->users.empty()) continue;  // when its first reader comes
    for (const ir::Value* v : n->inputs)
      if (v && v->producer && widens_bytes(*v->producer)) place(v->producer);
    place(n);
  }
  return out;
}

const ir::Value* stored_narrow(const ir::Value* v) {
  const ir::Node* n = v ? v->producer : nullptr;
  if (!n || !ops::is(*n, &ops::OpDef::converts) || n->inputs.size() != 1 || v->type.dtype != DType::kF32)
    return nullptr;
  const ir::Value* c = n->in(0);
  return c && c->constant && kernels::is_narrow_float(c->type.dtype) && c->constant->numel() > kMaxInlineElements
             ? c
             : nullptr;
}

bool is_weight(const ir::Value* v) { return v->constant || stored_narrow(v); }

bool is_view(const ir::Node& n) {
  if (!is_view_op(n) || stored_narrow(n.in(0))) return false;
  // A shape that is computed while running is read, and may bind dimensions.
  return !n.in(1) || n.in(1)->constant;
}

void drop_known_shapes(ir::Graph& graph) {
  std::set<std::string> given;
  for (const ir::Value* v : graph.inputs)
    for (const Dim& d : *v->type.shape) d.collect_symbols(given);
  for (ir::Node* n : graph.nodes) {
    if (!is_view_op(*n) || !n->in(1)) continue;
    std::set<std::string> known = given, needed;
    for (const Dim& d : *n->in(0)->type.shape) d.collect_symbols(known);
    for (const Dim& d : *n->out()->type.shape) d.collect_symbols(needed);
    if (std::includes(known.begin(), known.end(), needed.begin(), needed.end())) graph.set_input(n, 1, nullptr);
  }
}

std::string region_name(const Region& r) {
  const ir::Node* first = r.nodes.front();
  const ir::Value* out = first->out();
  if (r.nodes.size() == 1 && ops::states_sizes(*first) && !first->origins.empty()) return first->origins[0] + "/sizes";
  return first->name.empty() && out ? out->name : first->name;
}

std::string region_key(const Region& region) { return problem::hash(region_graph(region)); }

void close_region(const ir::Graph& graph, Region* r) {
  r->inputs.clear();
  r->outputs.clear();
  std::unordered_set<const ir::Node*> inside(r->nodes.begin(), r->nodes.end());
  std::unordered_set<const ir::Value*> added;  // what is read is not made here
  auto add_once = [&](std::vector<ir::Value*>& list, ir::Value* v) {
    if (added.insert(v).second) list.push_back(v);
  };
  for (const ir::Node* n : r->nodes) {
    for (size_t port = 0; port < n->inputs.size(); ++port) {
      ir::Value* v = n->inputs[port];
      if (!v || (v->producer && inside.contains(v->producer))) continue;
      // Kernels read and pack factors, however few they are.
      if (!small_constant(*r, v) || (v->constant && ops::is_factor(*n, port))) add_once(r->inputs, v);
    }
    for (ir::Value* v : n->outputs) {
      const bool used_outside =
          graph.is_output(v) ||
          std::any_of(v->users.begin(), v->users.end(), [&](const ir::Node* u) { return !inside.contains(u); });
      if (used_outside) add_once(r->outputs, v);
    }
  }
  if (r->outputs.empty()) r->outputs.push_back(r->nodes.back()->out());
}

std::vector<bool> constant_inputs(const Region& region) {
  std::vector<bool> out;
  for (const ir::Value* v : region.inputs) out.push_back(is_weight(v));
  return out;
}

namespace {
bool of_data(const std::optional<std::vector<Dim>>& content) {
  std::set<std::string> symbols;
  for (const Dim& d : content ? *content : std::vector<Dim>()) d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with(kDataDim); });
}
}  // namespace

ir::Graph region_graph(const Region& region, const std::vector<ir::Layout>& in_layouts,
                       const std::vector<ir::Layout>& out_layouts) {
  ir::Graph g;
  std::unordered_map<const ir::Value*, ir::Value*> map;
  for (size_t k = 0; k < region.inputs.size(); ++k) {
    const ir::Value* v = region.inputs[k];
    ir::Value* in = g.add_input("x" + std::to_string(k), v->type);
    in->type.layout = k < in_layouts.size() ? in_layouts[k] : ir::Layout{};
    // A step does not know what its weights hold before it is made, nor, where data decides it, what it reads.
    if (!v->constant && !of_data(v->content)) in->content = v->content;
    map[v] = in;
  }
  for (const ir::Node* n : region.nodes) {
    std::vector<ir::Value*> ins;
    for (ir::Value* v : n->inputs) {
      if (v && !map.contains(v)) {
        const std::string inner = "c" + std::to_string(map.size());
        if (v->constant) {
          map[v] = g.add_constant(inner, *v->constant);
        } else {
          map[v] = g.add(v->producer->op, {}, v->producer->attrs, inner)->out();
          map[v]->type = v->type;
          map[v]->content = v->content;
        }
      }
      ins.push_back(v ? map[v] : nullptr);
    }
    ir::Node* copy = g.add(n->op, ins, n->attrs, "", 0);
    for (ir::Value* v : n->outputs) {
      ir::Value* out = g.add_output_value(copy, "t" + std::to_string(map.size()));
      out->type = v->type;
      out->type.layout = {};
      out->content = v->content;
      map[v] = out;
    }
  }
  for (size_t k = 0; k < region.outputs.size(); ++k) {
    ir::Value* out = map.at(region.outputs[k]);
    out->type.layout = k < out_layouts.size() ? out_layouts[k] : ir::Layout{};
    g.mark_output(out, out->name);
  }
  return g;
}

namespace {
// From the place of its first node to that of its last every region spans places of the graph's order. Spans that
// overlap become one: whatever feeds a node, through regions as through nodes, stands at or before last_reached().
class Spans {
 public:
  void add(size_t first, size_t last) {
    auto it = spans_.upper_bound(first);
    if (it != spans_.begin() && std::prev(it)->second >= first) --it;
    while (it != spans_.end() && it->first <= last) {
      first = std::min(first, it->first);
      last = std::max(last, it->second);
      it = spans_.erase(it);
    }
    spans_.emplace(first, last);
  }
  size_t last_reached(size_t place) const {
    const auto it = spans_.upper_bound(place);
    return it == spans_.begin() ? place : std::max(place, std::prev(it)->second);
  }

 private:
  std::map<size_t, size_t> spans_;  // first place -> last, apart from each other
};

// State of a cut: which nodes are taken, and the order index of each node.
struct Cutter {
  const ir::Graph& graph;
  const Accepts& accepts;
  std::unordered_map<const ir::Node*, size_t> order;
  std::unordered_set<const ir::Node*> taken;
  std::vector<Region> regions;
  std::unordered_map<const ir::Node*, size_t> region_of;
  Spans spans;

  // A region may take `next` only if no path leads from the region out and back into `next`. Regions already cut count
  // as one node each, so that the regions stay without a cycle among themselves.
  bool convex_with(const Region& r, const ir::Node* next) const {
    const std::unordered_set<const ir::Node*> inside(r.nodes.begin(), r.nodes.end());
    size_t first = SIZE_MAX;
    for (const ir::Node* n : r.nodes) first = std::min(first, order.at(n));
    std::unordered_set<const ir::Node*> seen;
    std::vector<const ir::Node*> work;
    auto push_inputs = [&](const ir::Node* n, bool skip_inside) {
      for (const ir::Value* v : n->inputs)
        if (v && v->producer && !(skip_inside && inside.contains(v->producer)) && seen.insert(v->producer).second)
          work.push_back(v->producer);
    };
    push_inputs(next, true);
    while (!work.empty()) {
      const ir::Node* n = work.back();
      work.pop_back();
      if (inside.contains(n)) return false;
      if (spans.last_reached(order.at(n)) < first) continue;
      auto unit = region_of.find(n);
      if (unit == region_of.end()) {
        push_inputs(n, false);
        continue;
      }
      for (const ir::Node* m : regions[unit->second].nodes) {
        seen.insert(m);
        push_inputs(m, false);
      }
    }
    return true;
  }

  Region closed(std::vector<ir::Node*> nodes) const {
    std::sort(nodes.begin(), nodes.end(), [&](auto* a, auto* b) { return order.at(a) < order.at(b); });
    Region r;
    r.nodes = std::move(nodes);
    close_region(graph, &r);
    return r;
  }
  void take(Region r) {
    for (const ir::Node* n : r.nodes) {
      taken.insert(n);
      region_of[n] = regions.size();
    }
    spans.add(order.at(r.nodes.front()), order.at(r.nodes.back()));
    regions.push_back(std::move(r));
  }

  // What widens bytes for `next` alone, of full size: next to it in registers, or floats in memory by itself.
  std::vector<ir::Node*> feeders(const ir::Node& next, const std::vector<ir::Node*>& inside) const {
    std::vector<ir::Node*> out;
    for (const ir::Value* v : next.inputs) {
      ir::Node* n = v ? v->producer : nullptr;
      if (n && widens_bytes(*n) && !taken.contains(n) && v->users.size() == 1 && !graph.is_output(v) &&
          v->type.shape == next.out()->type.shape && std::find(inside.begin(), inside.end(), n) == inside.end())
        out.push_back(n);
    }
    return out;
  }
  bool join_feeders(Region* r, const ir::Node& next) const {
    for (ir::Node* n : feeders(next, r->nodes)) {
      if (!convex_with(*r, n)) return false;
      r->nodes.push_back(n);
    }
    return true;
  }

  // The single element-wise user of the region's last value, if it may join as epilogue.
  ir::Node* next_of_chain(const Region& r) const {
    ir::Value* last = r.nodes.back()->out();
    if (graph.is_output(last) || last->users.empty()) return nullptr;
    ir::Node* next = last->users[0];
    for (ir::Node* u : last->users)
      if (u != next) return nullptr;  // `x * f(x)` chains join as groups only
    if (next->inputs.size() > kMaxJoined || taken.contains(next) || !is_elementwise(*next) ||
        !(next->out()->type.shape == last->type.shape))
      return nullptr;
    return convex_with(r, next) ? next : nullptr;
  }
  // x -> f(x) -> x * f(x), the shape of SiLU and of hard-swish: both nodes join together.
  bool extend_by_gate(Region* r) const {
    ir::Value* last = r->nodes.back()->out();
    if (graph.is_output(last)) return false;
    std::vector<ir::Node*> users(last->users);
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    if (users.size() != 2) return false;
    if (order.at(users[0]) > order.at(users[1])) std::swap(users[0], users[1]);
    for (ir::Node* u : users)
      if (taken.contains(u) || !is_elementwise(*u) || !(u->out()->type.shape == last->type.shape)) return false;
    const bool gate =
        std::find(users[1]->inputs.begin(), users[1]->inputs.end(), users[0]->out()) != users[1]->inputs.end() &&
        users[0]->out()->users.size() == 1 && !graph.is_output(users[0]->out());
    if (!gate || !convex_with(*r, users[0])) return false;
    r->nodes.push_back(users[0]);
    if (!convex_with(*r, users[1])) {
      r->nodes.pop_back();
      return false;
    }
    r->nodes.push_back(users[1]);
    return true;
  }

  void cut_anchor(ir::Node* anchor) {
    Region r;
    r.nodes = {anchor};
    std::vector<std::vector<ir::Node*>> prefixes = {r.nodes};
    while (r.nodes.size() < kMaxEpilogue && anchor->outputs.size() == 1) {
      if (ir::Node* next = next_of_chain(r)) {
        if (!join_feeders(&r, *next)) break;
        r.nodes.push_back(next);
      } else if (!extend_by_gate(&r))
        break;
      prefixes.push_back(r.nodes);
    }
    for (size_t k = prefixes.size(); k-- > 0;) {
      Region whole = closed(prefixes[k]);
      if (k > 0 && !accepts(whole)) continue;
      prefixes.resize(k);
      whole.prefixes = std::move(prefixes);
      return take(std::move(whole));
    }
  }

  void cut_group(ir::Node* seed) {
    std::vector<ir::Node*> nodes = {seed};
    Region r = closed(nodes);
    bool grew = true;
    while (grew && nodes.size() < kMaxGroup) {
      grew = false;
      std::vector<ir::Node*> candidates;
      for (ir::Node* n : r.nodes)
        for (ir::Value* v : n->outputs)
          for (ir::Node* u : v->users)
            if (!taken.contains(u) && is_elementwise(*u) && std::find(nodes.begin(), nodes.end(), u) == nodes.end())
              candidates.push_back(u);
      std::sort(candidates.begin(), candidates.end(), [&](auto* a, auto* b) { return order.at(a) < order.at(b); });
      for (ir::Node* c : candidates) {
        if (std::find(nodes.begin(), nodes.end(), c) != nodes.end() || !convex_with(r, c)) continue;
        Region tried = r;
        if (!join_feeders(&tried, *c)) continue;
        std::vector<ir::Node*> wider = tried.nodes;
        wider.push_back(c);
        tried = closed(wider);
        if (tried.outputs.size() > 4 || !accepts(tried)) continue;
        nodes = std::move(wider);
        r = std::move(tried);
        grew = true;
        break;
      }
    }
    take(std::move(r));
  }
};
}  // namespace

std::vector<Region> cut_regions(const ir::Graph& graph, const Accepts& accepts) {
  Cutter c{graph, accepts, {}, {}, {}, {}, {}};
  c.order = places(graph);
  for (ir::Node* n : graph.nodes)
    if (!c.taken.contains(n) && ops::is_anchor(*n)) c.cut_anchor(n);
  for (ir::Node* n : graph.nodes)
    if (!c.taken.contains(n) && !is_view(*n) && !ops::states_sizes(*n) && !stored_narrow(n->out()) &&
        is_elementwise(*n))
      c.cut_group(n);
  // Sizes stand inside the regions that read them; those that are a result, or seen through a view or by a
  // body, are made by a step.
  const auto stored = [&](const ir::Value* v) {
    return graph.is_output(v) ||
           std::any_of(v->users.begin(), v->users.end(), [](auto* u) { return is_view(*u) || ir::has_bodies(*u); });
  };
  for (ir::Node* n : graph.nodes)
    if (!c.taken.contains(n) && !is_view(*n) && !stored_narrow(n->out()) &&
        (!ops::states_sizes(*n) || stored(n->out())))
      c.take(c.closed({n}));
  return in_order(graph, std::move(c.regions));
}

}  // namespace peri::lower
