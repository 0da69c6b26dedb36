// Divides candidates by the sizes they are valid for.
#include "lower/variants.hpp"

#include <algorithm>
#include <set>

#include "exec/region/region_payload.hpp"
#include "ir/bodies.hpp"
#include "lower/cover.hpp"
#include "tune/other_dims.hpp"

namespace peri::lower {

namespace {
// Without the sharing of memory that an engine never does, since it goes by sizes that are equal at all dims: a sum of
// a list that the data decide and of a row may be made in place of the list at the tuned dims.
tune::Candidate as_shared(const Region& r, tune::Candidate c) {
  std::vector<int>& in_place = c.offer.in_place;
  for (size_t k = 0; k < in_place.size() && k < r.outputs.size(); ++k)
    if (in_place[k] >= 0 && static_cast<size_t>(in_place[k]) < r.inputs.size() &&
        !(r.inputs[static_cast<size_t>(in_place[k])]->type.shape == r.outputs[k]->type.shape))
      in_place[k] = -1;
  return c;
}

bool holds_at(const Region& r, const tune::Candidate& as_tuned, std::span<const DimBinding> dims, tune::Tuner* tuner) {
  const tune::Candidate c = as_shared(r, as_tuned);
  return std::all_of(dims.begin(), dims.end(), [&](const DimBinding& d) {
    const auto there = exec::bind_region(region_graph(r), d);
    return !there.ok() || tuner->offered(c, *there, constant_inputs(r));
  });
}

// A step's buffers, and which of them share memory, are the same for all its variants.
bool same_buffers(const kernels::Offer& a, const kernels::Offer& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs && a.in_place == b.in_place;
}

// The region's dimensions with the values they are tuned for; empty if one is known only while running.
std::vector<std::pair<Dim, int64_t>> tuned_dims(const Region& r, const DimBinding& tuned_for) {
  std::set<std::string> symbols;
  for (const auto* list : {&r.inputs, &r.outputs})
    for (const ir::Value* v : *list)
      for (const Dim& d : *v->type.shape) d.collect_symbols(symbols);
  std::vector<std::pair<Dim, int64_t>> out;
  for (const std::string& s : symbols) {
    const auto it = tuned_for.find(s);
    if (it == tuned_for.end()) return {};
    out.emplace_back(Dim::symbol(s), it->second);
  }
  return out;
}
}  // namespace

Result<const tune::Candidates*> candidates_of(const Region& region, const DimBinding& tuned_for,
                                              std::span<const DimBinding> also, tune::Tuner* tuner,
                                              std::span<const kernels::Kernel* const> only) {
  if (ir::has_bodies(*region.nodes.front()))
    return refused("no kernel runs bodies: what they hold is chosen by itself");
  const ir::Graph graph = region_graph(region);
  PERI_ASSIGN(const ir::Graph here, exec::bind_region(graph, tuned_for));
  return &tuner->candidates(here, constant_inputs(region), tune::bound_at(graph, also), only);
}

Result<const tune::Candidates*> offers_of(const Region& region, const DimBinding& tuned_for, tune::Tuner* tuner) {
  if (ir::has_bodies(*region.nodes.front()))
    return refused("no kernel runs bodies: what they hold is chosen by itself");
  PERI_ASSIGN(const ir::Graph here, exec::bind_region(region_graph(region), tuned_for));
  return &tuner->offers(here, constant_inputs(region));
}

std::string refused_choice(const RefusedChoices& refused, const std::string& key, const tune::Candidate& candidate) {
  const auto region = refused.find(key);
  if (region == refused.end()) return "";
  const auto choice = region->second.find(candidate.id());
  return choice == region->second.end() ? "" : choice->second;
}

std::string why_not(const tune::Candidate& c, const std::string& key, const RefusedChoices& refused,
                    tune::Tuner* tuner) {
  if (!c.evidence.right()) return std::string(kRejected) + c.evidence.rejected;
  if (std::string why = refused_choice(refused, key, c); !why.empty()) return std::string(kRefusedThere) + why;
  std::string wrong = tuner->wrong_on_samples(c);
  return wrong.empty() ? wrong : std::string(kRejected) + wrong;
}

Error no_conversion(const std::string& value, std::span<const std::pair<std::string, std::string>> refusals) {
  std::string found;
  for (const auto& [candidate, why] : refusals) found += (found.empty() ? "" : "; ") + candidate + ": " + why;
  return refused("no kernel converts '%s' between layouts", value.c_str())
      .expecting("a candidate that runs at these sizes and is right")
      .but_found(found.empty() ? "none" : found)
      .advise("where memory was short, give it more or build for smaller sizes: --dims NAME=N; else report this");
}

std::vector<tune::Candidate> usable_candidates(const Region& region, const tune::Candidates& all,
                                               const DimBinding& tuned_for, std::span<const DimBinding> also,
                                               const RefusedChoices& refused, tune::Tuner* tuner,
                                               std::vector<tune::Refusal>* refusals) {
  std::vector<tune::Candidate> usable, here_only;
  const std::string key = region_key(region);
  for (const tune::Candidate& c : all.list) {
    if (!c.evidence.right())
      refusals->push_back({c.id(), std::string(kRejected) + c.evidence.rejected});
    else if (std::string why = refused_choice(refused, key, c); !why.empty())
      refusals->push_back({c.id(), std::string(kRefusedThere) + std::move(why)});
    else
      (holds_at(region, c, also, tuner) ? usable : here_only).push_back(c);
  }
  const size_t everywhere = usable.size();
  const std::vector<std::pair<Dim, int64_t>> dims = tuned_dims(region, tuned_for);
  for (tune::Candidate& c : here_only) {
    const auto end = usable.begin() + static_cast<std::ptrdiff_t>(everywhere);
    // No library is loaded for a size that may never come.
    auto fallback = std::find_if(usable.begin(), end, [&](const auto& f) {
      return same_buffers(f.offer, c.offer) && (f.offer.library.empty() || f.offer.library == c.offer.library);
    });
    if (fallback == end)
      fallback = std::find_if(usable.begin(), end, [&](const auto& f) { return same_buffers(f.offer, c.offer); });
    if (fallback == end || dims.empty()) {
      // Elsewhere it may reuse another argument's memory, or none.
      if (tune::Candidate apart = tune::without_sharing(c); holds_at(region, apart, also, tuner))
        usable.push_back(std::move(apart));
      else
        refusals->push_back({c.id(), "holds for the tuned dims only, and nothing with its layouts holds for others"});
      continue;
    }
    c.fallback = std::make_shared<const tune::Candidate>(*fallback);
    c.offer.holds_for = dims;
    usable.push_back(std::move(c));
  }
  return usable;
}

void add_wrong(const tune::Candidate& chosen, tune::Tuner* tuner, WrongKernels* wrong) {
  for (const tune::Candidate* c = &chosen; c; c = c->fallback.get())
    if (std::string why = tuner->wrong_on_samples(*c); !why.empty()) (*wrong)[c->kernel] = std::move(why);
}

void leave_out(const WrongKernels& wrong, std::vector<tune::Candidate>* usable, std::vector<tune::Refusal>* refusals) {
  std::erase_if(*usable, [&](const tune::Candidate& c) {
    auto why = wrong.find(c.kernel);
    for (const tune::Candidate* f = c.fallback.get(); f && why == wrong.end(); f = f->fallback.get())
      why = wrong.find(f->kernel);
    if (why == wrong.end()) return false;
    refusals->push_back({c.id(), std::string(kRejected) + why->second});
    return true;
  });
}

std::string problem_of(const Region& r, const tune::Candidate& c) {
  std::string out = region_key(r) + " " + c.id() + " " + layouts_text(c.offer) + " ";
  for (const bool constant : constant_inputs(r)) out += constant ? 'c' : 'v';
  return out;
}

Status keep_locked(const Region& r, const tune::Tuner& tuner, plan::LockReader* lock,
                   std::vector<tune::Candidate>* usable) {
  const std::string& node = r.nodes[0]->name;
  PERI_ASSIGN(const plan::LockedChoice* choice, lock->region(region_key(r), node));
  const bool kernel = choice->candidate != "reference" && choice->candidate != "sized";
  if (!kernel) usable->clear();
  return kernel ? keep_choice_and_fallback(*choice, tuner.target(), node, usable) : Status(Ok{});
}

Status keep_choice_and_fallback(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                                std::vector<tune::Candidate>* usable) {
  const std::vector<tune::Candidate> all = *usable;
  PERI_TRY(keep_choice(choice, target, node, usable));
  tune::Candidate& kept = usable->front();
  if (choice.fallback.empty() != (kept.fallback == nullptr))
    return refused("the lock and this version do not agree where candidate '%s' holds", choice.candidate.c_str())
        .at_node(node);
  if (choice.fallback.empty()) return Ok{};
  for (const tune::Candidate& c : all) {
    if (c.fallback || c.id() != choice.fallback || !same_buffers(c.offer, kept.offer)) continue;
    tune::Candidate fallback = c;
    fallback.offer.requires_isa = choice.fallback_isa;  // see keep_choice()
    kept.fallback = std::make_shared<const tune::Candidate>(std::move(fallback));
    return Ok{};
  }
  return refused("the lock names candidate '%s', which this version or machine does not offer", choice.fallback.c_str())
      .at_node(node)
      .advise("build with --lock again");
}

}  // namespace peri::lower
