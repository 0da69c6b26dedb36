// Steps timed through the session's hook.
#include "bench/steps.hpp"

#include "base/clock.hpp"

namespace peri::bench {

Result<int64_t> time_steps(runtime::Session& session, std::span<const Tensor> inputs, double seconds,
                           std::vector<double>* step_ms) {
  int64_t began = 0, runs = 0;
  session.set_step_hook([&](size_t step, bool before) {
    if (before)
      began = now_ns();
    else
      (*step_ms)[step] += static_cast<double>(now_ns() - began) * 1e-6;
  });
  const int64_t start = now_ns();
  Status done = Ok{};
  do {
    auto out = session.run(inputs);
    if (!out.ok()) done = std::move(out).error();
    ++runs;
  } while (done.ok() && seconds_since(start) < seconds);
  session.set_step_hook({});
  if (!done.ok()) return std::move(done).error();
  return runs;
}

}  // namespace peri::bench
