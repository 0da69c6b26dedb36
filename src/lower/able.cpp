// Offers and trials of a part, divided into usable candidates and refusals.
#include "lower/able.hpp"

#include <algorithm>

#include "exec/region/region_payload.hpp"
#include "lower/data_sizes.hpp"
#include "lower/sides.hpp"

namespace peri::lower {

bool chosen_by_guess(const Terms& terms, bool locked) {
  const tune::Options& o = terms.tuner.options();
  return !locked && !o.measure && o.verify && !o.own_executor.empty();
}

bool chosen_by_time(const Terms& terms, bool locked) {
  return !locked && terms.tuner.options().measure && !has_sides(terms.backend);
}

namespace {
// What is offered and was not tried, since the part stands for the sake of other kernels.
void tell_untried(const Terms& terms, const Part& p, const tune::Candidates& tried, Able* able) {
  const auto here = exec::bind_region(region_graph(p.region), terms.tuned_for);
  if (p.kernels.empty() || !here.ok()) return;
  for (const tune::Candidate& c : terms.tuner.offers(*here, constant_inputs(p.region)).list)
    if (std::none_of(tried.list.begin(), tried.list.end(), [&](const auto& t) { return t.kernel == c.kernel; }))
      able->refusals.push_back({c.id(), "not tried: the chain was cut here for the sake of others"});
}
}  // namespace

namespace {
// At wide sizes, which must be of a part that the data decide and that cannot have the tuned ones. Whether there are
// such sizes.
bool find_wide(const Terms& terms, const Part& part, Able* able) {
  const Region& r = part.region;
  if (!terms.wide || !has_data_size(r.inputs) || !terms.backend.placement.device.empty()) return false;
  std::vector<DimBinding> also(terms.also.begin(), terms.also.end());
  also.insert(also.end(), terms.wide->all().begin(), terms.wide->all().end());
  for (const DimBinding& dims : terms.wide->all()) {
    const auto all =
        able->tried ? candidates_of(r, dims, also, &terms.tuner, part.kernels) : offers_of(r, dims, &terms.tuner);
    if (!all.ok()) continue;
    able->refusals = (*all)->refusals;
    able->usable = usable_candidates(r, **all, dims, also, terms.refused, &terms.tuner, &able->refusals);
    return true;
  }
  return false;
}
}  // namespace

void find_able(const Terms& terms, const Part& part, Able* able) {
  const Region& r = part.region;
  const auto all = able->tried ? candidates_of(r, terms.tuned_for, terms.also, &terms.tuner, part.kernels)
                               : offers_of(r, terms.tuned_for, &terms.tuner);
  able->usable.clear();
  able->refusals.clear();
  if (!all.ok()) {
    if (find_wide(terms, part, able)) return;
    able->refusals.push_back(
        {"*", has_data_size(r.outputs) ? "the data decides the sizes of its results" : all.error().text()});
    return;
  }
  able->refusals = (*all)->refusals;
  able->usable = usable_candidates(r, **all, terms.tuned_for, terms.also, terms.refused, &terms.tuner, &able->refusals);
  tell_untried(terms, part, **all, able);
}

std::vector<tune::Candidate> those_beside(const Terms& terms, const Part& part, std::vector<tune::Refusal>* refusals) {
  const ir::Graph graph = region_graph(part.region);
  const auto here = exec::bind_region(graph, terms.tuned_for);
  if (!here.ok() || !has_sides(terms.backend)) return {};
  const tune::Candidates& all =
      terms.tuner.beside(*here, constant_inputs(part.region), tune::bound_at(graph, terms.also));
  return usable_candidates(part.region, all, terms.tuned_for, terms.also, terms.refused, &terms.tuner, refusals);
}

}  // namespace peri::lower
