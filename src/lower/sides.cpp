// A region is on the host if its kernel is, or if it has none.
#include "lower/sides.hpp"

#include <algorithm>
#include <set>

namespace peri::lower {

bool has_sides(const Backend& b) { return b.placement.own_only && !b.placement.device.empty(); }

bool stays_home(const Backend& b, const tune::Candidate& c) {
  return has_sides(b) && c.kernel->executor != b.placement.executor;
}

bool host_only(const Backend& b, const std::vector<tune::Candidate>& candidates) {
  if (!has_sides(b)) return false;
  return std::all_of(candidates.begin(), candidates.end(), [&](const auto& c) { return stays_home(b, c); });
}

double crossing_ms(const Terms& terms, const ir::Type& type) {
  if (!terms.backend.cross_ms || type.dtype == DType::kString) return 0;
  const auto dims = eval(*type.shape, terms.tuned_for);
  const auto count = dims.ok() ? checked_numel(*dims) : Result<int64_t>(1);
  return terms.backend.cross_ms(terms.tuner, static_cast<double>(count.ok() ? *count : 1) * dtype_bits(type.dtype) / 8);
}

namespace {
bool on_host(const Terms& terms, const Choice& c) { return c.reference || stays_home(terms.backend, c.candidate); }

// What kernels of the device say of it; or that one of them takes it, and the host is faster with its neighbours.
std::string reason_of(const Terms& terms, const Choice& c) {
  const std::string& executor = terms.backend.placement.executor;
  for (const tune::Candidate& o : c.others)
    if (o.kernel->executor == executor)
      return o.id() + format(" takes %.4f ms there, more than this with its copies", o.evidence.time_ms);
  std::string out;
  for (const tune::Refusal& r : c.refusals) {
    const kernels::Kernel* const k = kernels::find(r.kernel.substr(0, r.kernel.find_first_of("@ ")));
    if (k && k->executor == executor) out += (out.empty() ? "" : "; ") + r.kernel + ": " + r.reason;
  }
  for (const tune::Refusal& r : c.refusals)
    if (out.empty() && r.kernel == "*") out = r.reason;
  return out.empty() ? "no kernel of " + terms.backend.placement.device + " takes it" : out;
}
}  // namespace

std::vector<HostRegion> host_regions(const Terms& terms, const Cover& cover) {
  std::vector<HostRegion> out;
  if (!has_sides(terms.backend)) return out;
  std::set<const ir::Value*> away;  // made on the device
  std::set<const ir::Node*> home;   // nodes of the host
  for (size_t k = 0; k < cover.regions.size(); ++k)
    for (const ir::Node* n : cover.regions[k].nodes) {
      if (on_host(terms, cover.choices[k])) home.insert(n);
      for (const ir::Value* v : n->outputs)
        if (!home.contains(n)) away.insert(v);
    }
  for (size_t k = 0; k < cover.regions.size(); ++k) {
    const Region& r = cover.regions[k];
    if (!on_host(terms, cover.choices[k])) continue;
    HostRegion h{region_name(r), reason_of(terms, cover.choices[k]), 0};
    for (const ir::Value* v : r.inputs)
      if (away.contains(v)) h.copies_ms += crossing_ms(terms, v->type);
    for (const ir::Value* v : r.outputs)
      if (std::any_of(v->users.begin(), v->users.end(), [&](auto* u) { return !is_view(*u) && !home.contains(u); }))
        h.copies_ms += crossing_ms(terms, v->type);
    out.push_back(std::move(h));
  }
  return out;
}

void add_host_conversions(const Backend& backend, const plan::Program& p, std::span<const StepReport> steps,
                          std::vector<HostRegion>* out) {
  for (size_t k = 0; has_sides(backend) && k < steps.size(); ++k)
    if (steps[k].conversion && p.steps[k].device == plan::kHost && p.steps[k].executor != plan::kCopyExecutor)
      out->push_back({steps[k].name, "a change of layout that no kernel of " + backend.placement.device + " does", 0});
}

}  // namespace peri::lower
