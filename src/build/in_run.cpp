// A few runs through the session's hook and that of bodies, of which each step's median counts.
#include "build/in_run.hpp"

#include <algorithm>
#include <map>

#include "base/clock.hpp"
#include "judge/inputs.hpp"
#include "judge/seeded.hpp"
#include "judge/sizes.hpp"
#include "runtime/body_times.hpp"

namespace peri::build {

namespace {
// Of all runs, and of those after the first one, which makes instances. A build with a step that takes a second is not
// to take many of them. Not fitted.
constexpr double kMaxSeconds = 10, kSeconds = 0.2;
constexpr int kMaxRuns = 10;
// Of the inputs that peri bench makes up: what the data decide is of the same size in both.
constexpr uint64_t kBenchSeed = 1;

// Not where it is that of an assumed size.
bool has_own_time(const lower::StepReport& s) { return s.evidence.timed() && s.assumed_sizes.empty(); }

// Steps in bodies, and those of the host that no trial timed.
bool are_wanted(const std::vector<lower::StepReport>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const lower::StepReport& s) {
    return !s.bodies.empty() || (s.device.empty() && !s.key.empty() && !has_own_time(s));
  });
}

// What each run counted of a step.
using Counted = std::map<lower::StepReport*, std::vector<runtime::StepTime>>;

// Adds the counts of one run, of these steps and of their bodies. REQUIRES: a time for each step.
void take(const std::vector<runtime::StepTime>& times, const plan::Program& program, const runtime::BodyTimes& bodies,
          std::vector<lower::StepReport>* reports, Counted* counted) {
  for (size_t k = 0; k < reports->size(); ++k) {
    lower::StepReport& report = (*reports)[k];
    int64_t ns = times[k].ns;
    for (size_t b = 0; b < report.bodies.size(); ++b) {
      const plan::Program& body = *program.steps[k].bodies[b];
      const std::vector<runtime::StepTime> inner = bodies.of(body);
      if (inner.size() != report.bodies[b].size()) continue;
      for (const runtime::StepTime& t : inner) ns -= t.ns;
      take(inner, body, bodies, &report.bodies[b], counted);
    }
    (*counted)[&report].push_back({times[k].runs, std::max<int64_t>(ns, 0)});
  }
}

// The run of the middle, of an even number the slower of two.
lower::InRun median_of(std::vector<runtime::StepTime> runs) {
  const auto middle = runs.begin() + std::ssize(runs) / 2;
  std::nth_element(runs.begin(), middle, runs.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
  return {middle->runs, static_cast<double>(middle->ns) * 1e-6};
}

// The times of the program's own steps in one run.
class RunTimes {
 public:
  RunTimes(runtime::Session* session, runtime::BodyTimes* bodies)
      : session_(session), bodies_(bodies), now_(session->engine().program().steps.size()) {
    session_->set_step_hook([this](size_t step, bool before) {
      if (before) {
        began_ = now_ns();  // Clock: times of steps within one run, of which the median is kept
        return;
      }
      now_[step].runs += 1;
      now_[step].ns += now_ns() - began_;  // Clock: the same
    });
  }
  ~RunTimes() { session_->set_step_hook({}); }
  RunTimes(const RunTimes&) = delete;
  RunTimes& operator=(const RunTimes&) = delete;

  void clear() {
    now_.assign(now_.size(), {});
    bodies_->clear();
  }
  const std::vector<runtime::StepTime>& steps() const { return now_; }

 private:
  runtime::Session* session_;
  runtime::BodyTimes* bodies_;
  std::vector<runtime::StepTime> now_;
  int64_t began_ = 0;
};

// kCancelled by the deadline, or what the run says.
Status time_runs(runtime::Session& session, runtime::BodyTimes& bodies, std::span<const Tensor> inputs,
                 const std::function<bool()>& stop, compile::Compiled* compiled) {
  RunTimes times(&session, &bodies);
  const int64_t begun = now_ns();                                                             // Clock: a deadline
  session.stop_when([&] { return (stop && stop()) || seconds_since(begun) > kMaxSeconds; });  // Clock: the same
  PERI_TRY(session.run(inputs));
  const int64_t warm = now_ns();  // Clock: the same
  Counted counted;
  for (int run = 0; run < kMaxRuns && (run == 0 || seconds_since(warm) < kSeconds); ++run) {  // Clock: the same
    times.clear();
    PERI_TRY(session.run(inputs));
    take(times.steps(), compiled->program, bodies, &compiled->steps, &counted);
  }
  for (auto& [report, runs] : counted) report->in_run = median_of(std::move(runs));
  return Ok{};
}

double ms_of(const lower::StepReport& s, bool in_body) {
  if (!has_own_time(s) && (s.in_run || !s.evidence.timed())) return s.in_run ? s.in_run->ms : 0;
  if (!in_body) return s.evidence.time_ms;
  return s.in_run ? s.evidence.time_ms * static_cast<double>(s.in_run->runs) : 0;
}
double ms_of_bodies(const lower::StepReport& s) {
  double ms = 0;
  for (const auto& body : s.bodies)
    for (const lower::StepReport& inner : body) ms += ms_of(inner, true) + ms_of_bodies(inner);
  return ms;
}
}  // namespace

double predicted_ms(const compile::Compiled& compiled) {
  double ms = compiled.conversion_ms;
  for (const lower::StepReport& s : compiled.steps) ms += (s.conversion ? 0 : ms_of(s, false)) + ms_of_bodies(s);
  return ms;
}

void time_in_runs(const compile::Compilation& compilation, const runtime::EngineOptions& engines, Built* built) {
  compile::Compiled& compiled = built->compiled;
  const compile::Options& options = compilation.options();
  const auto& stop = options.tune.stop;
  if (!options.tune.measure || options.lock || compiled.tuned.untried > 0 || (stop && stop()) ||
      !are_wanted(compiled.steps) || compiled.steps.size() != compiled.program.steps.size() ||
      !judge::lacks_memory(compiled.program, compilation.tuned_for(), false).empty())
    return;
  runtime::EngineOptions watched = engines;
  if (!open_devices(compiled.program, &watched).ok()) return;
  watched.body_times = std::make_shared<runtime::BodyTimes>();
  runtime::WeightSource weights;
  weights.tensors = compiled.weights;
  const auto engine = runtime::Engine::create(compiled.program, std::move(weights), watched);
  if (!engine.ok()) return;
  const auto session = runtime::Session::create(*engine);
  if (!session.ok()) return;
  const auto timed = [&](const Result<std::vector<Tensor>>& inputs) {
    return inputs.ok() && time_runs(**session, *watched.body_times, *inputs, stop, &compiled).ok();
  };
  bool done = timed(judge::random_inputs(compiled.program, compilation.tuned_for(), kBenchSeed));
  for (const judge::Integers integers : {judge::Integers::kIndices, judge::Integers::kZero, judge::Integers::kOne})
    done = done || timed(judge::make_inputs(compilation.graph(), compilation.tuned_for(), kRunSeed, integers));
  compiled.predicted_ms = predicted_ms(compiled);
}

}  // namespace peri::build
