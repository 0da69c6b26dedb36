// Shares of the time that runs of the engine told; work where there were none.
#include "build/on_reference.hpp"

namespace peri::build {

namespace {
// Of a run: what two measurements of it tell apart at best. Not fitted.
constexpr double kMinSlowShare = 0.01;
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

OnReference on_reference(const compile::Compiled& compiled) {
  OnReference out;
  take(compiled.steps, compiled.predicted_ms, false, &out);
  return out;
}

}  // namespace peri::build
