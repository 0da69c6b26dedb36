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

Status place_lowered(const Placement& placement, Lowered* out) {
  const std::vector<size_t> origin = place_steps(placement, &out->program);
  std::vector<StepReport> reports = std::exchange(out->steps, {});
  for (size_t k = 0; k < origin.size(); ++k) {
    if (origin[k] != kNoStep) {
      out->steps.push_back(std::move(reports[origin[k]]));
      continue;
    }
    StepReport copy;
    copy.name = out->program.steps[k].name;
    copy.conversion = true;
    copy.chosen = plan::kCopyExecutor;
    out->steps.push_back(std::move(copy));
  }
  for (size_t k = 0; k < origin.size(); ++k)
    if (const uint32_t device = out->program.steps[k].device; device != plan::kHost)
      out->steps[k].device = out->program.devices[device];
  for (const plan::Step& s : out->program.steps)
    if (placement.own_only && s.device == plan::kHost && s.executor == placement.executor)
      return unsupported("its memory is shared with steps of the host, which device '%s' cannot do",
                         placement.device.c_str())
          .at_node(s.name);
  return Ok{};
}

}  // namespace peri::lower
