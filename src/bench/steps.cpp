// Steps timed through the session's hook.
#include "bench/steps.hpp"

#include "base/clock.hpp"
#include "bench/measure.hpp"

namespace peri::bench {

Result<int64_t> time_steps(runtime::Session& session, std::span<const Tensor> inputs, double seconds,
                           std::vector<double>* step_ms) {
  int64_t began = 0, runs = 0;
  std::vector<double> sum(step_ms->size(), 0);
  session.set_step_hook([&](size_t step, bool before) {
    if (before)
      began = now_ns();
    else
      sum[step] += static_cast<double>(now_ns() - began) * 1e-6;
  });
  Schedule schedule{.warm_up_seconds = 0, .seconds = seconds, .min_samples = 1, .max_samples = INT64_MAX};
  schedule.before = [&] {
    if (runs++ == 0) sum.assign(sum.size(), 0);  // what was counted until now is the warm-up
  };
  const auto done = sample(schedule, [&]() -> Result<double> {
    PERI_TRY(session.run(inputs));
    return 0.0;
  });
  session.set_step_hook({});
  if (!done.ok()) return done.error();
  for (size_t k = 0; k < sum.size(); ++k) (*step_ms)[k] += sum[k];
  return runs;
}

}  // namespace peri::bench
