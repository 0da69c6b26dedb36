// Captures of prefixes, and rounds over them.
#include "bench/step_graphs.hpp"

#include "bench/measure.hpp"
#include "device/capture.hpp"
#include "stats/stats.hpp"

namespace peri::bench {

namespace {
// A median of fewer than 5 follows one odd round; 200 are enough for any of the times that a table prints. Not varied.
constexpr int64_t kMinRounds = 5, kMaxRounds = 200;
constexpr double kWarmUpShare = 0.2;  // of the time to measure: clocks and caches settle. Not varied

// Rounds of so many samples each.
Schedule in_rounds(size_t samples, double seconds) {
  const auto each = static_cast<int64_t>(samples);
  return {.warm_up_seconds = kWarmUpShare * seconds,
          .seconds = seconds,
          .min_samples = kMinRounds * each,
          .max_samples = kMaxRounds * each};
}
}  // namespace

Result<StepGraphs> StepGraphs::open(runtime::Session& session) {
  StepGraphs out;
  const plan::Program& p = session.engine().program();
  for (size_t k = 0; k < p.steps.size(); ++k) {
    if (p.steps[k].device == plan::kHost) continue;
    auto step = session.device_step(k);
    if (!step.ok())
      return refused("the step cannot be timed by itself: its sizes depend on data")
          .at_node(p.steps[k].name)
          .advise("peri bench --layers times every step, with the host waiting for each");
    out.steps_.push_back(k);
    out.work_.push_back(std::move(*step));
  }
  if (out.work_.empty())
    return refused("no step of the engine runs on a device").advise("peri bench --layers times the steps of a CPU's");
  PERI_ASSIGN(out.clock_, GraphClock::open(out.work_[0].device, out.work_[0].stream));
  return out;
}

Result<std::unique_ptr<device::Captured>> StepGraphs::first(size_t count) const {
  device::Stream* const stream = work_[0].stream;
  return device::capture(*stream, [&]() -> Status {
    for (size_t k = 0; k < count; ++k) {
      const runtime::DeviceStep& s = work_[k];
      PERI_TRY(s.instance->enqueue({s.reads, s.writes, s.workspace, s.fault, stream}));
    }
    return Ok{};
  });
}

Result<StepTimes> time_steps(runtime::Session& session, double seconds) {
  PERI_ASSIGN(StepGraphs graphs, StepGraphs::open(session));
  StepTimes out;
  out.steps = graphs.steps();
  std::vector<std::unique_ptr<device::Captured>> captured;
  for (size_t k = 1; k <= out.steps.size(); ++k) {
    PERI_ASSIGN(captured.emplace_back(), graphs.first(k));
    const size_t before = k > 1 ? captured[k - 2]->size() : 0;
    out.work.push_back(static_cast<int64_t>(captured.back()->size() - before));
  }
  // A batch is a round over the graphs, by turns forwards and backwards; its values stand in the graphs' order. The
  // warm-up holds whole rounds, since the first replay of a graph brings it to the device.
  bool backwards = false;
  std::vector<double> ms(captured.size());
  PERI_ASSIGN(const std::vector<double> samples,
              sample_batches(in_rounds(captured.size(), seconds), [&](std::vector<double>* into) -> Status {
                for (size_t n = 0; n < captured.size(); ++n) {
                  const size_t k = backwards ? captured.size() - 1 - n : n;
                  PERI_ASSIGN(ms[k], graphs.replay_ms(*captured[k]));
                }
                backwards = !backwards;
                into->insert(into->end(), ms.begin(), ms.end());
                return Ok{};
              }));
  out.rounds = std::ssize(samples) / std::ssize(captured);
  double before = 0;
  for (size_t k = 0; k < captured.size(); ++k) {
    const double until = stats::median(every(samples, captured.size(), k));
    out.ms.push_back(until - before);
    before = until;
  }
  out.run_ms = before;
  return out;
}

Result<Contest> time_in_turn(runtime::Session& first, runtime::Session& second, double seconds) {
  PERI_ASSIGN(StepGraphs one, StepGraphs::open(first));
  PERI_ASSIGN(StepGraphs two, StepGraphs::open(second));
  PERI_ASSIGN(const auto a, one.first(one.steps().size()));
  PERI_ASSIGN(const auto b, two.first(two.steps().size()));
  PERI_ASSIGN(const std::vector<double> samples,
              sample_batches(in_rounds(2, seconds), [&](std::vector<double>* into) -> Status {
                PERI_ASSIGN(const double x, one.replay_ms(*a));
                PERI_ASSIGN(const double y, two.replay_ms(*b));
                into->insert(into->end(), {x, y});
                return Ok{};
              }));
  const std::vector<double> ones = every(samples, 2, 0), twos = every(samples, 2, 1);
  Contest out;
  out.rounds = std::ssize(ones);
  for (size_t k = 0; k < ones.size(); ++k) out.second_faster += twos[k] < ones[k];
  out.first_ms = stats::median(ones);
  out.second_ms = stats::median(twos);
  return out;
}

}  // namespace peri::bench
