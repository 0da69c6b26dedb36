// First run, warm-up, samples, steps.
#include "bench/session.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "bench/steps.hpp"
#include "plan/identity.hpp"

namespace peri::bench {

namespace {
constexpr int64_t kTellEveryNs = 250'000'000;  // four times a second is as often as people read
constexpr double kLayerSeconds = 1;            // of samples for the table of steps, which prints two digits. Not varied

// Tells how far the samples are, some times a second.
class Teller {
 public:
  explicit Teller(const SessionTerms& terms) : terms_(terms), start_ns_(now_ns()), told_ns_(start_ns_) {}
  void tell(const std::string& what) const {
    if (terms_.progress) terms_.progress(what);
  }
  // After each run, warm-up included.
  void ran(double warm_up_seconds) {
    runs_ += 1;
    if (!terms_.progress || now_ns() - told_ns_ < kTellEveryNs) return;
    told_ns_ = now_ns();
    const double spent = seconds_since(start_ns_) - warm_up_seconds;
    tell(spent < 0 ? std::string("warm-up")
                   : format("%.1f of %.1f s, %s", spent, terms_.seconds, counted(runs_, "run").c_str()));
  }

 private:
  const SessionTerms& terms_;
  int64_t start_ns_, told_ns_, runs_ = 0;
};

}  // namespace

std::string kernel_text(const plan::Step& step) {
  const std::string& payload = step.variants[0].payload;
  constexpr std::string_view kHead = "kernel ";
  const size_t from = payload.starts_with(kHead) ? kHead.size() : 0;
  return payload.substr(from, payload.find('\n') - from);
}

namespace {
Status time_layers(runtime::Session& session, std::span<const Tensor> inputs, Record* out) {
  const plan::Program& program = session.engine().program();
  std::vector<double> ms(program.steps.size(), 0);
  PERI_ASSIGN(out->layer_runs, time_steps(session, inputs, kLayerSeconds, &ms));
  for (size_t k = 0; k < ms.size(); ++k) {
    const plan::Step& s = program.steps[k];
    out->layers.push_back({s.name, s.executor, kernel_text(s), ms[k]});
  }
  return Ok{};
}
}  // namespace

Result<Record> time_session(std::shared_ptr<const runtime::Engine> engine, std::span<const Tensor> inputs,
                            const SessionTerms& terms) {
  Record out;
  const plan::Program& program = engine->program();
  out.model = program.name;
  out.identity = plan::identity_of(program);
  out.threads = terms.threads;
  Teller teller(terms);
  teller.tell("first run, then the warm-up");
  ProcessRecord process;
  process.load_ms = terms.load_ms;
  const int64_t start = now_ns();
  PERI_ASSIGN(auto session, runtime::Session::create(engine, terms.threads));
  PERI_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
  process.first_run_ms = seconds_since(start) * 1e3;
  out.items_per_run = items_of(inputs, outputs);
  for (const auto& [name, value] : session->binding())
    if (program.tuned_for.contains(name)) out.dims[name] = value;
  Schedule schedule;
  schedule.seconds = terms.seconds;
  schedule.warm_up_seconds = terms.warm_up_seconds;
  schedule.max_samples = terms.max_samples;
  const auto once = [&]() -> Status {
    PERI_TRY(session->run(inputs));
    return Ok{};
  };
  const device::CpuLimits limits = device::cpu_limits();
  const device::CpuCounters before = device::cpu_counters();
  bool stopped = false;
  const auto stop = [&] {
    teller.ran(schedule.warm_up_seconds);
    stopped = stopped || (terms.stop && terms.stop());
    return stopped;
  };
  PERI_ASSIGN(const Measurement m, measure(schedule, once, stop));
  process.conditions = conditions_between(before, device::cpu_counters(), limits.online);
  process.wall_s = m.wall_s;
  process.samples_ms = m.samples_ms;
  out.interrupted = stopped;
  out.unstable = why_unstable(m, terms.tolerance);
  out.disturbed = disturbances(process.conditions, terms.threads, limits);
  out.arena_bytes = session->arena_bytes();
  out.processes.push_back(std::move(process));
  if (!stopped) {
    Schedule resident = schedule;
    resident.warm_up_seconds = kResidentWarmUpSeconds;
    PERI_ASSIGN(out.on_device, device_report(session.get(), resident, stop));
    out.on_device.with_copies = m;
  }
  if (terms.layers && !stopped) {
    teller.tell("steps");
    PERI_TRY(time_layers(*session, inputs, &out));
  }
  return out;
}

}  // namespace peri::bench
