// Steps timed through the session's hook.
#include "bench/steps.hpp"

#include "base/clock.hpp"
#include "bench/measure.hpp"

namespace peri::bench {

namespace {
// With fewer than 3 a stall as long as the time to measure would be a step's time. More than 10000 no median needs.
constexpr int64_t kMinStepRuns = 3, kMaxStepRuns = 10000;
}  // namespace

void StepSamples::end_run() {
  for (size_t k = 0; k < now_.size(); ++k) of_runs_[k].push_back(now_[k]);
  now_.assign(now_.size(), 0);
}

void StepSamples::clear() { *this = StepSamples(now_.size()); }

double StepSamples::median_ms(size_t step) const { return of_runs_[step].empty() ? 0 : stats::median(of_runs_[step]); }

Result<int64_t> time_steps(runtime::Session& session, std::span<const Tensor> inputs, double seconds,
                           std::vector<double>* step_ms) {
  int64_t began = 0, runs = 0;
  StepSamples samples(step_ms->size());
  session.set_step_hook([&](size_t step, bool before) {
    if (before)
      began = now_ns();
    else
      samples.add(step, static_cast<double>(now_ns() - began) * 1e-6);
  });
  Schedule schedule{.warm_up_seconds = 0, .seconds = seconds, .min_samples = kMinStepRuns, .max_samples = kMaxStepRuns};
  schedule.before = [&] {
    if (runs++ == 0) samples.clear();  // what was counted until now is the warm-up
  };
  const auto done = sample(schedule, [&]() -> Result<double> {
    PERI_TRY(session.run(inputs));
    samples.end_run();
    return 0.0;
  });
  session.set_step_hook({});
  if (!done.ok()) return done.error();
  for (size_t k = 0; k < step_ms->size(); ++k) (*step_ms)[k] = samples.median_ms(k);
  return runs;
}

}  // namespace peri::bench
