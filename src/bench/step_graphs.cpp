// Captures of prefixes, and rounds over them.
#include "bench/step_graphs.hpp"

#include "base/clock.hpp"
#include "stats/stats.hpp"

namespace peri::bench {

namespace {
// A median of fewer than 5 follows one odd round; 200 are enough for any of the times that a table prints. Not varied.
constexpr int64_t kMinRounds = 5, kMaxRounds = 200;
constexpr double kWarmUpShare = 0.2;  // of the time to measure: clocks and caches settle. Not varied
}  // namespace

Result<StepGraphs> StepGraphs::open(runtime::Session& session) {
  StepGraphs out;
  const plan::Program& p = session.engine().program();
  for (size_t k = 0; k < p.steps.size(); ++k) {
    if (p.steps[k].device == plan::kHost) continue;
    auto step = session.device_step(k);
    if (!step.ok())
      return refused("the step cannot be timed by itself: its sizes depend on data").at_node(p.steps[k].name);
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
  PERI_TRY(stream->begin_capture());
  Status done = Ok{};
  for (size_t k = 0; k < count && done.ok(); ++k) {
    const runtime::DeviceStep& s = work_[k];
    done = s.instance->enqueue({s.reads, s.writes, s.workspace, s.fault, stream});
  }
  auto captured = stream->end_capture();  // in any case
  PERI_TRY(std::move(done));
  return captured;
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
  const int64_t warm = now_ns();
  while (seconds_since(warm) < kWarmUpShare * seconds) PERI_TRY(graphs.replay_ms(*captured.back()));
  std::vector<std::vector<double>> samples(captured.size());
  const int64_t start = now_ns();
  for (int64_t round = -1; round < kMaxRounds; ++round) {
    if (round >= kMinRounds && seconds_since(start) > seconds) break;
    for (size_t n = 0; n < captured.size(); ++n) {
      const size_t k = round % 2 ? captured.size() - 1 - n : n;
      PERI_ASSIGN(const double ms, graphs.replay_ms(*captured[k]));
      if (round >= 0) samples[k].push_back(ms);  // the first replay brings a graph to the device
    }
    out.rounds = round + 1;
  }
  double before = 0;
  for (const auto& s : samples) {
    const double until = stats::median(s);
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
  const int64_t warm = now_ns();
  do {
    PERI_TRY(one.replay_ms(*a));
    PERI_TRY(two.replay_ms(*b));
  } while (seconds_since(warm) < kWarmUpShare * seconds);
  Contest out;
  std::vector<double> ones, twos;
  const int64_t start = now_ns();
  while (out.rounds < kMinRounds || (out.rounds < kMaxRounds && seconds_since(start) < seconds)) {
    PERI_ASSIGN(const double x, one.replay_ms(*a));
    PERI_ASSIGN(const double y, two.replay_ms(*b));
    ones.push_back(x);
    twos.push_back(y);
    ++out.rounds;
    out.second_faster += y < x;
  }
  out.first_ms = stats::median(ones);
  out.second_ms = stats::median(twos);
  return out;
}

}  // namespace peri::bench
