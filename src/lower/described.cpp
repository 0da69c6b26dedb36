// Layouts, requirements and evidence of a choice, and what a run of it needs.
#include "lower/described.hpp"

#include "base/fault.hpp"
#include "lower/cover.hpp"

namespace peri::lower {

void describe_chosen(const tune::Candidate& chosen, const ir::Graph* region, const std::vector<bool>& constant,
                     const device::Target& target, StepReport* report) {
  report->chosen = chosen.id();
  report->layouts = layouts_text(chosen.offer);
  report->requires_isa = chosen.offer.requires_isa;
  report->library = chosen.offer.library;
  report->evidence = chosen.evidence;
  if (!region) return;
  auto needs = contained([&] { return kernels::needs_of(*chosen.kernel, {region, constant}, chosen.offer, target); });
  if (needs.ok()) report->needs = *std::move(needs);
}

}  // namespace peri::lower
