// The cover search.
#include "backends/cpu/cover.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "exec/core/region_payload.hpp"

namespace peri::backends::cpu {

std::string region_key(const Region& region) {
  return hex64(hash_text(ir::print(region_graph(region), {1024, false})));
}

std::string layouts_text(const kernels::Offer& offer) {
  std::string out;
  for (size_t k = 0; k < offer.inputs.size(); ++k) out += (k ? "," : "") + exec::layout_code(offer.inputs[k]);
  out += "->";
  for (size_t k = 0; k < offer.outputs.size(); ++k) out += (k ? "," : "") + exec::layout_code(offer.outputs[k]);
  return out;
}

Status keep_choice(const plan::LockedChoice& choice, const kernels::Machine& machine, std::string_view node,
                   std::vector<tune::Candidate>* list) {
  if (!machine.has(choice.requires_isa))
    return refused("the lock needs %s, which this machine does not have", choice.requires_isa.c_str()).at_node(node);
  std::erase_if(*list, [&](const tune::Candidate& c) {
    return c.id() != choice.candidate || layouts_text(c.offer) != choice.layouts;
  });
  if (list->empty())
    return refused("the lock names candidate '%s', which this version or machine does not offer",
                   choice.candidate.c_str())
        .at_node(node);
  list->resize(1);
  kernels::Offer& offer = list->front().offer;
  if (offer.library != choice.library)
    return refused("the lock was made with another version of a library")
        .at_node(node)
        .expecting(choice.library)
        .but_found(offer.library);
  // A lesser machine chose it: the engine asks for no more than it did.
  offer.requires_isa = choice.requires_isa;
  return Ok{};
}

namespace {
constexpr double kUnmeasuredMs = 1e-3;
constexpr double kReferenceMs = 1e3;  // worse than any kernel

struct Node {
  const Region* region = nullptr;
  std::vector<tune::Candidate> usable;  // empty: reference
  std::vector<tune::Refusal> refusals;
  size_t pick = 0;
};

const ir::Layout kRowMajor;

struct Search {
  const std::vector<Region>& regions;
  tune::Tuner& tuner;
  const Binding& binding;
  std::vector<Node> nodes;
  std::unordered_map<const ir::Value*, std::pair<size_t, size_t>> made_by;  // value -> region, output index
  std::unordered_map<const ir::Value*, std::vector<std::pair<size_t, size_t>>>
      used_by;  // value -> (region, input index)

  double time_of(const tune::Candidate& c) const { return c.evidence.timed() ? c.evidence.time_ms : kUnmeasuredMs; }
  const ir::Layout& given(size_t region, size_t output) const {
    const Node& n = nodes[region];
    return n.usable.empty() ? kRowMajor : n.usable[n.pick].offer.outputs[output];
  }
  const ir::Layout& wanted(const Node& n, size_t pick, size_t input) const {
    return n.usable.empty() ? kRowMajor : n.usable[pick].offer.inputs[input];
  }
  double convert(const ir::Value* v, const ir::Layout& from, const ir::Layout& to) const {
    if (from == to) return 0;
    auto dims = eval(*v->type.shape, binding);
    return dims.ok() ? tuner.convert_ms(v->type.dtype, *dims, from, to) : kReferenceMs;
  }
  // Layout in which a value exists before any conversion.
  const ir::Layout& layout_of(const ir::Value* v) const {
    auto it = made_by.find(v);
    return it == made_by.end() ? kRowMajor : given(it->second.first, it->second.second);
  }
  // Views read row-major memory, and so do graph outputs.
  bool must_be_row_major(const ir::Value* v, const ir::Graph* graph) const {
    if (graph && graph->is_output(v)) return true;
    return std::any_of(v->users.begin(), v->users.end(), [](const ir::Node* u) { return is_view(*u); });
  }

  // Cost of region k with pick p, given everyone else's picks: its time and the conversions on its edges. A conversion
  // shared by several users is paid once.
  double local_cost(size_t k, size_t p) const {
    const Node& n = nodes[k];
    double cost = n.usable.empty() ? kReferenceMs : time_of(n.usable[p]);
    for (size_t i = 0; i < n.region->inputs.size(); ++i) {
      const ir::Value* v = n.region->inputs[i];
      if (v->constant) continue;
      const ir::Layout& want = wanted(n, p, i);
      const ir::Layout& have = layout_of(v);
      if (want == have) continue;
      bool shared = false;
      auto users = used_by.find(v);
      if (users != used_by.end())
        for (const auto& [u, j] : users->second)
          shared = shared || (u < k && wanted(nodes[u], nodes[u].pick, j) == want);
      if (!shared) cost += convert(v, have, want);
    }
    for (size_t o = 0; o < n.region->outputs.size(); ++o) {
      const ir::Value* v = n.region->outputs[o];
      const ir::Layout& have = n.usable.empty() ? kRowMajor : n.usable[p].offer.outputs[o];
      std::vector<ir::Layout> paid;
      auto pay = [&](const ir::Layout& want) {
        if (want == have || std::find(paid.begin(), paid.end(), want) != paid.end()) return;
        paid.push_back(want);
        cost += convert(v, have, want);
      };
      if (row_major_needed.contains(v)) pay(kRowMajor);
      auto users = used_by.find(v);
      if (users != used_by.end())
        for (const auto& [u, j] : users->second) pay(wanted(nodes[u], nodes[u].pick, j));
    }
    return cost;
  }

  std::unordered_map<const ir::Value*, bool> row_major_needed;

  // Forward pass: best total of a chain that ends in each candidate; then picks are traced back along the first
  // activation input. Exact on chains.
  void chains() {
    std::vector<std::vector<double>> best(nodes.size());
    std::vector<std::vector<std::vector<size_t>>> from(nodes.size());
    std::vector<size_t> uses(nodes.size(), 0);
    for (size_t k = 0; k < nodes.size(); ++k) {
      Node& n = nodes[k];
      const size_t count = std::max<size_t>(1, n.usable.size());
      best[k].assign(count, 0);
      from[k].assign(count, std::vector<size_t>(n.region->inputs.size(), 0));
      for (size_t p = 0; p < count; ++p) {
        double cost = n.usable.empty() ? kReferenceMs : time_of(n.usable[p]);
        for (size_t i = 0; i < n.region->inputs.size(); ++i) {
          const ir::Value* v = n.region->inputs[i];
          if (v->constant) continue;
          auto it = made_by.find(v);
          if (it == made_by.end()) {
            cost += convert(v, kRowMajor, wanted(n, p, i));
            continue;
          }
          const auto [source, output] = it->second;
          const Node& s = nodes[source];
          double least = 1e300;
          for (size_t q = 0; q < best[source].size(); ++q) {
            const ir::Layout& have = s.usable.empty() ? kRowMajor : s.usable[q].offer.outputs[output];
            // A value with several users spreads its cost among them, so that it is not counted several times.
            const double share = std::max<size_t>(1, used_by[v].size());
            const double c = best[source][q] / share + convert(v, have, wanted(n, p, i));
            if (c < least) least = c, from[k][p][i] = q;
          }
          cost += least;
        }
        for (size_t o = 0; o < n.region->outputs.size(); ++o)
          if (row_major_needed.contains(n.region->outputs[o]) && !n.usable.empty())
            cost += convert(n.region->outputs[o], n.usable[p].offer.outputs[o], kRowMajor);
        best[k][p] = cost;
      }
      for (const ir::Value* v : n.region->inputs)
        if (auto it = made_by.find(v); it != made_by.end()) ++uses[it->second.first];
    }
    std::vector<int> picked(nodes.size(), -1);
    for (size_t k = nodes.size(); k-- > 0;) {
      if (picked[k] < 0)
        picked[k] = static_cast<int>(std::min_element(best[k].begin(), best[k].end()) - best[k].begin());
      nodes[k].pick = nodes[k].usable.empty() ? 0 : static_cast<size_t>(picked[k]);
      for (size_t i = 0; i < nodes[k].region->inputs.size(); ++i) {
        auto it = made_by.find(nodes[k].region->inputs[i]);
        if (it != made_by.end() && picked[it->second.first] < 0)
          picked[it->second.first] = static_cast<int>(from[k][static_cast<size_t>(picked[k])][i]);
      }
    }
  }

  void descend() {
    for (int sweep = 0; sweep < 8; ++sweep) {
      bool changed = false;
      for (size_t k = 0; k < nodes.size(); ++k) {
        const double now = local_cost(k, nodes[k].pick);
        double least = now;
        size_t pick = nodes[k].pick;
        for (size_t p = 0; p < nodes[k].usable.size(); ++p) {
          const double c = local_cost(k, p);
          if (c < least * (1 - 1e-9)) least = c, pick = p;
        }
        if (pick != nodes[k].pick) nodes[k].pick = pick, changed = true;
      }
      if (!changed) return;
    }
  }
};

// Leaves the locked candidate alone in `usable` (none: the reference), as the lock has it.
Status keep_locked(const Region& r, const tune::Tuner& tuner, plan::LockReader* lock,
                   std::vector<tune::Candidate>* usable) {
  const std::string& node = r.nodes[0]->name;
  PERI_ASSIGN(const plan::LockedChoice* choice, lock->region(region_key(r), node));
  if (choice->candidate == "reference") return usable->clear(), Ok{};
  return keep_choice_and_fallback(*choice, tuner.machine(), node, usable);
}

Status gather(Search* s, const Binding& binding, std::span<const DimBinding> also, const RefusedChoices& refused,
              plan::LockReader* lock) {
  for (size_t k = 0; k < s->regions.size(); ++k) {
    const Region& r = s->regions[k];
    Node n;
    n.region = &r;
    const auto all = candidates_of(r, binding, also, &s->tuner);
    if (all.ok()) {
      n.refusals = (*all)->refusals;
      n.usable = usable_candidates(r, **all, binding, also, refused, &s->tuner, &n.refusals);
    } else {
      n.refusals.push_back({"*", all.error().text()});
    }
    if (lock->locked()) PERI_TRY(keep_locked(r, s->tuner, lock, &n.usable));
    for (size_t o = 0; o < r.outputs.size(); ++o) s->made_by[r.outputs[o]] = {k, o};
    for (size_t i = 0; i < r.inputs.size(); ++i)
      if (!r.inputs[i]->constant) s->used_by[r.inputs[i]].emplace_back(k, i);
    s->nodes.push_back(std::move(n));
  }
  return Ok{};
}
}  // namespace

Result<Cover> choose_cover(const std::vector<Region>& regions, tune::Tuner& tuner, const Binding& binding,
                           std::span<const DimBinding> also, const RefusedChoices& refused, plan::LockReader* lock) {
  Search s{regions, tuner, binding, {}, {}, {}, {}};
  PERI_TRY(gather(&s, binding, also, refused, lock));
  for (const auto& [v, where] : s.made_by)
    if (s.must_be_row_major(v, nullptr)) s.row_major_needed[v] = true;
  for (const Region& r : regions)
    for (const ir::Value* v : r.outputs)
      if (v->users.empty()) s.row_major_needed[v] = true;  // only a graph output has no user
  s.chains();
  s.descend();
  Cover cover;
  for (size_t k = 0; k < regions.size(); ++k) {
    const Node& n = s.nodes[k];
    Choice c;
    c.refusals = n.refusals;
    c.reference = n.usable.empty();
    if (!c.reference) {
      c.candidate = n.usable[n.pick];
      cover.predicted_ms += std::max(0.0, c.candidate.evidence.time_ms);
      for (size_t p = 0; p < n.usable.size(); ++p)
        if (p != n.pick) c.others.push_back(n.usable[p]);
    }
    cover.choices.push_back(std::move(c));
  }
  for (const auto& [v, users] : s.used_by) {
    std::vector<ir::Layout> paid;
    for (const auto& [u, j] : users) {
      const ir::Layout& want = s.wanted(s.nodes[u], s.nodes[u].pick, j);
      if (want == s.layout_of(v) || std::find(paid.begin(), paid.end(), want) != paid.end()) continue;
      paid.push_back(want);
      cover.conversion_ms += s.convert(v, s.layout_of(v), want);
    }
  }
  cover.predicted_ms += cover.conversion_ms;
  return cover;
}

}  // namespace peri::backends::cpu
