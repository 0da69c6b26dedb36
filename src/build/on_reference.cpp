// Shares of the time that runs of the engine told; work where there were none.
#include "build/on_reference.hpp"

#include "base/plural.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "ops/entry.hpp"
#include "tune/work.hpp"

namespace peri::build {

namespace {
// Of a run: what two measurements of it tell apart at best. Not fitted.
constexpr double kMinSlowShare = 0.01;
// Of a run: what the quick ones may take together, ten of the share above. Not fitted.
constexpr double kMaxQuickShare = 0.1;
// What the reference computes within some microseconds: 256 numbers took 5. Not fitted.
constexpr double kMaxQuickFlops = 256, kMaxQuickBytes = 4096;

void take(const std::vector<lower::StepReport>& steps, double run_ms, bool in_body, OnReference* out) {
  for (const lower::StepReport& s : steps) {
    if (s.chosen == "reference") {
      const std::optional<double> ms = s.in_run ? std::optional(s.in_run->ms) : std::nullopt;
      const bool slow = is_slow(ms, run_ms, s.work, in_body || !s.assumed_sizes.empty());
      (slow ? out->slow : out->quick).push_back(&s);
      if (!slow) out->quick_ms += ms.value_or(0);
    }
    for (const auto& body : s.bodies) take(body, run_ms, true, out);
  }
}
}  // namespace

bool is_slow(std::optional<double> ms, double run_ms, const tune::RegionWork& work, bool unbounded) {
  if (ms && run_ms > 0) return *ms >= kMinSlowShare * run_ms;
  return unbounded || work.flops > kMaxQuickFlops || work.bytes > kMaxQuickBytes;
}

namespace {
// The slow steps of a program and of its bodies: each name with its operators.
void take(const plan::Program& p, const DimBinding& sizes, bool in_body, int64_t* steps, int64_t* slow,
          std::set<std::string>* names) {
  for (const plan::Step& s : p.steps) {
    ++*steps;
    for (const auto& body : s.bodies) take(*body, sizes, true, steps, slow, names);
    const exec::Entry* const executor = exec::find(s.executor);
    if (!executor || !executor->by_definition || s.variants.empty()) continue;
    const auto payload = exec::read_payload(s.variants[0].payload);
    if (!payload.ok()) continue;
    const auto here = exec::bind_region(payload->graph, sizes, true);
    const tune::RegionWork work = here.ok() ? tune::work_of(*here, 0) : tune::RegionWork();
    if (!is_slow(std::nullopt, 0, work, in_body || !here.ok() || !s.binds.empty())) continue;
    ++*slow;
    std::set<std::string> operators;
    for (const ir::Node* n : payload->graph.nodes)
      if (!ops::states_sizes(*n)) operators.insert(n->op);
    std::string list;
    for (const std::string& op : operators) list += (list.empty() ? " (" : ", ") + op;
    names->insert(s.name + list + (list.empty() ? "" : ")"));
  }
}
}  // namespace

std::string slow_steps_text(const plan::Program& program) {
  DimBinding sizes(program.tuned_for.begin(), program.tuned_for.end());
  sizes.insert(program.assumed.begin(), program.assumed.end());
  int64_t steps = 0, slow = 0;
  std::set<std::string> names;
  take(program, sizes, false, &steps, &slow, &names);
  if (slow == 0) return "";
  return format("%lld of %s on the slow reference: ", static_cast<long long>(slow), counted(steps, "step").c_str()) +
         short_list(names);
}

std::string short_list(const std::set<std::string>& names) {
  constexpr size_t kMaxBytes = 160;  // two lines of a terminal
  std::string out;
  for (const std::string& name : names) {
    if (out.size() > kMaxBytes) return out + ", ...";
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

OnReference on_reference(const compile::Compiled& compiled) {
  OnReference out;
  take(compiled.steps, compiled.predicted_ms, false, &out);
  if (out.quick_ms < kMaxQuickShare * compiled.predicted_ms || out.quick_ms == 0) return out;
  out.slow.insert(out.slow.end(), out.quick.begin(), out.quick.end());  // many take long together
  out.quick.clear();
  out.quick_ms = 0;
  return out;
}

}  // namespace peri::build
