// What affects a choice besides times: which parts are tried at all, and by how much a part that is not of the cut must
// win.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/knobs.hpp"
#include "exec/region/region_payload.hpp"
#include "lower/cover.hpp"
#include "lower/sides.hpp"
#include "tune/rivals.hpp"

namespace peri::lower {

namespace {
// What is not of the greedy cut has to win by more than two measurements of the same thing differ: 0.985 to 1.030.
// Rests on: benchmarks/results/2026-11-22_constants.md, as kWin.
constexpr double kWin = 0.97;
// The same of what is only guessed, which errs by more than a measurement does: plans are the same from 1.0 to 1.3.
// Rests on: benchmarks/results/2026-11-23_constants_rest.md, as kGuessMayErr.
constexpr double kGuessMayErr = 1.15;

// Kernels that take the beginning of a chain and not the whole, or give or take other places there; with `every` all
// that take it. What a kernel does behind its sums it does in registers, with values that it stores anyway: one that
// takes both is taken to be as fast on the whole as on the beginning with a pass over memory behind it. Measured on 35
// pairs of GEMM, direct, Winograd and oneDNN convolutions (AVX-512, one thread, least of three): with relu apart 0.98
// to 1.22 of the time, with hard_swish or gelu 0.95 to 1.08, with sigmoid 0.90 to 1.19. So the rule may cost up to a
// tenth of a step with a sigmoid; $PERI_EVERY_SPLIT leaves it out, and what cannot be part of the least cover
// (cover.cpp) is left out even so, exactly.
std::vector<const kernels::Kernel*> added_kernels(const Terms& terms, const Region& beginning, const Region& whole,
                                                  bool every) {
  std::vector<const kernels::Kernel*> out;
  const auto small = exec::bind_region(region_graph(beginning), terms.tuned_for),
             large = exec::bind_region(region_graph(whole), terms.tuned_for);
  if (!small.ok() || !large.ok() || beginning.inputs.empty() || whole.inputs.empty()) return out;
  const tune::Candidates& all = terms.tuner.offers(*large, constant_inputs(whole));
  for (const tune::Candidate& c : terms.tuner.offers(*small, constant_inputs(beginning)).list)
    if (std::find(out.begin(), out.end(), c.kernel) == out.end() &&
        std::none_of(all.list.begin(), all.list.end(), [&](const tune::Candidate& w) {
          return !every && w.kernel == c.kernel && w.offer.inputs[0] == c.offer.inputs[0] &&
                 w.offer.outputs == c.offer.outputs;
        }))
      out.push_back(c.kernel);
  return out;
}

bool accepted(const Terms& terms, const Region& r) {
  const auto here = exec::bind_region(region_graph(r), terms.tuned_for);
  return here.ok() && terms.tuner.accepted(*here, constant_inputs(r));
}
}  // namespace

bool is_guessed(const Terms& terms, const Region& r) {
  const auto here = exec::bind_region(region_graph(r), terms.tuned_for);
  if (!here.ok()) return false;
  const std::vector<tune::Candidate>& all = terms.tuner.offers(*here, constant_inputs(r)).list;
  return std::any_of(all.begin(), all.end(), [](const tune::Candidate& c) { return c.offer.guess_ms > 0; });
}

bool may_stand(const Terms& terms, bool locked, const tune::Candidate& c) {
  return c.evidence.timed() || (!terms.tuner.options().measure && !locked && c.offer.guess_ms > 0);
}

namespace {
// A workspace that large may be what a run's memory hangs on: cuDNN's are up to 64 MiB.
constexpr int64_t kMuchWorkspace = int64_t{4} << 20;

bool faster(const Counted& a, const Counted& b) { return a.ms < b.ms || (a.ms == b.ms && a.candidate < b.candidate); }

const Counted& fastest_of(std::span<const Counted> list) { return *std::min_element(list.begin(), list.end(), faster); }

const Counted& small_of(std::span<const Counted> list) {
  constexpr double kNearTie = 0.02;  // less than kSameTime of the tuner, by which two times may differ
  const Counted& fastest = fastest_of(list);
  const auto ties = [&](const Counted& c) {
    return c.timed && fastest.timed && c.workspace_bytes >= 0 && c.ms - fastest.ms < kNearTie * fastest.ms;
  };
  if (fastest.workspace_bytes < 0) return fastest;
  int64_t least = fastest.workspace_bytes;
  for (const Counted& c : list)
    if (ties(c)) least = std::min(least, c.workspace_bytes);
  if (fastest.workspace_bytes - least < kMuchWorkspace) return fastest;
  const Counted* out = nullptr;
  for (const Counted& c : list)
    if (ties(c) && c.workspace_bytes - least < kMuchWorkspace && (!out || faster(c, *out))) out = &c;
  return *out;
}
}  // namespace

const Counted& taken_of(std::span<const Counted> list) {
  const Counted &fastest = fastest_of(list), &small = small_of(list);
  if (!fastest.timed || small.max_error < 0) return small;
  const auto ties = [&](const Counted& c) {
    const bool unknown = c.workspace_bytes < 0 && small.workspace_bytes >= 0;
    return c.timed && c.max_error >= 0 && !unknown && c.workspace_bytes - small.workspace_bytes < kMuchWorkspace &&
           tune::same_time(c.ms, fastest.ms, fastest.spread);
  };
  double least = small.max_error;
  for (const Counted& c : list)
    if (ties(c)) least = std::min(least, c.max_error);
  if (small.max_error <= tune::kMuchError * least) return small;
  const Counted* out = nullptr;
  for (const Counted& c : list)
    if (ties(c) && c.max_error <= tune::kMuchError * least && (!out || faster(c, *out))) out = &c;
  return *out;
}

double counted_ms(const tune::Evidence& e, bool of_the_cut) {
  return of_the_cut ? e.time_ms : e.time_ms / kWin * (1 + std::max(0.0, e.spread));
}

bool joins_parts(const Parts& parts, const Part& part) {
  return !part.greedy && std::count_if(parts.list.begin(), parts.list.end(), [&](const Part& p) {
                           return p.greedy &&
                                  std::includes(part.atoms.begin(), part.atoms.end(), p.atoms.begin(), p.atoms.end());
                         }) > 1;
}

double counted_for_fewer_ms(const tune::Evidence& e, bool) { return e.time_ms * kWin; }

bool worth_a_library(double with_ms, double without_ms) {
  // Rests on: benchmarks/results/2026-11-23_engines_without_onednn.md.
  constexpr double kLibrarySaves = 0.02;
  return with_ms < without_ms * (1 - kLibrarySaves);
}

double guessed_ms(const kernels::Offer& offer, bool of_the_cut) {
  constexpr double kUnmeasuredMs = 1e-3;  // of all alike: fewer steps are less
  return offer.guess_ms > 0 ? offer.guess_ms * (of_the_cut ? 1 : kGuessMayErr) : kUnmeasuredMs;
}

double hoped_ms(const tune::Evidence& e, bool of_the_cut) {
  return of_the_cut || e.visits > 1 ? e.time_ms : e.time_ms / tune::kMaxRivalRatio;
}

PartRules measured_rules(const Terms& terms) {
  using Kernels = std::optional<std::vector<const kernels::Kernel*>>;
  if (!terms.tuner.options().measure)
    return {[](const Region&, const Region&, const Region&) -> Kernels { return std::nullopt; },
            [&](const Region& both) { return has_sides(terms.backend) && is_guessed(terms, both); }};
  return {[&, every = knob(Knob::kEverySplit) == "1"](const Region& beginning, const Region& rest,
                                                      const Region& whole) -> Kernels {
            std::vector<const kernels::Kernel*> added = added_kernels(terms, beginning, whole, every);
            return added.empty() || !accepted(terms, rest) ? std::nullopt : Kernels(std::move(added));
          },
          [&](const Region& both) { return accepted(terms, both); }, knob(Knob::kEverySplit) == "1"};
}

std::vector<tune::Candidate> guessed_candidates(const Terms& terms, const Part& part,
                                                std::vector<tune::Refusal>* refusals) {
  const auto here = exec::bind_region(region_graph(part.region), terms.tuned_for);
  if (!here.ok()) return {};
  tune::Candidates all = terms.tuner.offers(*here, constant_inputs(part.region));
  std::erase_if(all.list, [&](const tune::Candidate& c) {
    return c.offer.guess_ms <= 0 || stays_home(terms.backend, c) ||
           (!part.kernels.empty() &&
            std::find(part.kernels.begin(), part.kernels.end(), c.kernel) == part.kernels.end());
  });
  return usable_candidates(part.region, all, terms.tuned_for, terms.also, terms.refused, &terms.tuner, refusals);
}

bool same_memory(const ir::Type& type, const ir::Layout& a, const ir::Layout& b) {
  if (a == b) return true;
  if (a.block_axis >= 0 || b.block_axis >= 0) return false;
  const auto order = [&](const ir::Layout& layout) {  // of the axes that have more than one element
    std::vector<size_t> out;
    for (size_t k = 0; k < type.rank(); ++k) {
      const size_t axis = layout.order.empty() ? k : layout.order[k];
      if (!(*type.shape)[axis].is_const(1)) out.push_back(axis);
    }
    return out;
  };
  return order(a) == order(b);
}

}  // namespace peri::lower
