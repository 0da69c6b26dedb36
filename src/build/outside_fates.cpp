// Derived from the reports of the steps: a candidate's name begins with its kernel's.
#include "build/outside_fates.hpp"

#include <algorithm>
#include <map>

#include "base/plural.hpp"
#include "kernels/outside/outside.hpp"
#include "lower/variants.hpp"

namespace peri::build {

namespace {
// "softmax@3 {...}", or the kernel alone, of which no candidate was made.
bool is_of(std::string_view id, std::string_view kernel) { return id.substr(0, id.find('@')) == kernel; }

// What most regions are not: a reason that says more is told before it.
bool says_little(std::string_view reason) {
  return reason.starts_with("not the pattern's number") || reason.starts_with("another node") ||
         reason.starts_with("not the same nodes");
}

void add_step(const lower::StepReport& step, OutsideFate* fate, std::map<std::string, int64_t>* refusals) {
  if (is_of(step.chosen, fate->kernel)) {
    ++fate->chosen;
    return;
  }
  const auto& others = step.others;
  if (std::any_of(others.begin(), others.end(), [&](const auto& o) { return is_of(o.first, fate->kernel); })) {
    ++fate->slower;
    return;
  }
  for (const auto& [id, reason] : step.refusals) {
    if (!is_of(id, fate->kernel)) continue;
    if (!reason.starts_with(lower::kRejected)) {
      ++(*refusals)[reason];
      continue;
    }
    if (fate->rejected++ == 0) fate->why = reason.substr(lower::kRejected.size());
    return;
  }
}
}  // namespace

std::vector<OutsideFate> outside_fates(const compile::Compiled& compiled) {
  std::vector<OutsideFate> out;
  for (const kernels::Kernel* k : kernels::kernels()) {
    if (k->provider != kernels::outside::kProvider) continue;
    OutsideFate& fate = out.emplace_back();
    fate.kernel = k->name;
    fate.manifest = kernels::outside::path_of(*k);
    std::map<std::string, int64_t> refusals;
    for (const lower::StepReport* s : lower::all_reports(compiled.steps)) add_step(*s, &fate, &refusals);
    if (const auto runs = compiled.tuned.kernels.find(fate.kernel); runs != compiled.tuned.kernels.end()) {
      fate.tried = runs->second.runs > 0 || !runs->second.failed.empty();
      if (fate.why.empty()) fate.why = runs->second.failed;
    }
    if (!fate.why.empty()) continue;
    const auto best = std::max_element(refusals.begin(), refusals.end(), [](const auto& a, const auto& b) {
      return std::pair(!says_little(a.first), a.second) < std::pair(!says_little(b.first), b.second);
    });
    if (best != refusals.end()) fate.why = best->first;
  }
  return out;
}

std::string OutsideFate::text() const {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : "; ") + part; };
  if (chosen > 0) add("chosen for " + counted(chosen, "step"));
  if (slower > 0) add("right at " + counted(slower, "step") + " where another was taken");
  if (rejected > 0) add("rejected at " + counted(rejected, "step") + ": " + why);
  if (out.empty())
    out = std::string(tried         ? "tried on parts of steps, and taken for none"
                      : why.empty() ? "not tried"
                                    : "takes no step") +
          (why.empty() ? "" : ": " + why);
  return "'" + kernel + "' " + out;
}

void write_fates(JsonWriter& w, const std::vector<OutsideFate>& fates) {
  w.key("kernels_from_outside").begin_array();
  for (const OutsideFate& f : fates)
    w.begin_object()
        .field("kernel", f.kernel)
        .field("manifest", f.manifest)
        .field("chosen", f.chosen)
        .field("slower", f.slower)
        .field("rejected", f.rejected)
        .field("why", f.why)
        .end_object();
  w.end_array();
}

}  // namespace peri::build
