// A session, the times of its steps, and what is known beside them.
#include "build/measured.hpp"

#include <algorithm>

#include "base/plural.hpp"
#include "bench/gpu_ceilings.hpp"
#include "bench/session.hpp"
#include "bench/step_graphs.hpp"
#include "device/cuda/cuda.hpp"
#include "judge/seeded.hpp"
#include "tune/evidence.hpp"
#include "tune/work.hpp"

namespace peri::build {

std::vector<KnownStep> known_steps(const compile::Compiled& compiled) {
  std::vector<KnownStep> out;
  for (const lower::StepReport& s : compiled.steps) out.push_back({s.evidence.time_ms, s.work});
  return out;
}

std::vector<KnownStep> known_steps(const Json& proof) {
  std::vector<KnownStep> out;
  const Json* const steps = proof.find("steps");
  for (size_t k = 0; steps && k < steps->items().size(); ++k) {
    const Json& step = steps->items()[k];
    KnownStep& known = out.emplace_back();
    if (const Json* e = step.find("evidence"))
      if (const auto evidence = tune::read_evidence(*e); evidence.ok()) known.alone_ms = evidence->time_ms;
    if (const Json* w = step.find("work"))
      if (auto work = tune::read_work(*w); work.ok()) known.work = *work;
  }
  return out;
}

namespace {
constexpr double kSeconds = 2;  // medians of a few hundred rounds repeat within 1 %

struct Floors {
  bench::Ceilings warm, cold;
  explicit Floors(const device::Device* device) {
    const auto* gpu = dynamic_cast<const device::cuda::CudaDevice*>(device);
    if (!gpu) return;
    warm = cold = bench::gpu_ceilings(gpu->facts());
    warm.levels[2].bytes_per_cycle = 0;
    for (auto& level : cold.levels) level.bytes = 0;
  }
};

std::string chosen(const plan::Step& s) {
  std::string text = bench::kernel_text(s);
  return text.empty() ? s.executor : text;
}
}  // namespace

Result<MeasuredSteps> measure_steps(const std::shared_ptr<const runtime::Engine>& engine, const DimBinding& dims,
                                    const std::vector<KnownStep>& known) {
  const plan::Program& p = engine->program();
  PERI_ASSIGN(const std::vector<Tensor> inputs, judge::random_inputs(p, dims, 1));
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  PERI_TRY(session->run(inputs));
  PERI_ASSIGN(const bench::StepTimes times, bench::time_steps(*session, kSeconds));
  const Floors floors(engine->device(p.steps[times.steps[0]].device));
  MeasuredSteps out{p.name, times.run_ms, times.rounds, {}};
  for (size_t k = 0; k < times.steps.size(); ++k) {
    const size_t step = times.steps[k];
    const KnownStep of = step < known.size() ? known[step] : KnownStep{};
    out.steps.push_back({p.steps[step].name, chosen(p.steps[step]), times.ms[k], times.work[k], of,
                         floors.warm.floor_ms(of.work.least), floors.cold.floor_ms(of.work.least)});
  }
  return out;
}

std::string MeasuredSteps::text() const {
  double alone = 0;
  int64_t launches = 0;
  for (const MeasuredStep& s : steps) {
    alone += std::max(0.0, s.known.alone_ms);
    launches += s.launches;
  }
  return format("%s on the device, %lld launched or copied, %.4f ms the run, %.4f ms the steps alone, %s",
                counted(std::ssize(steps), "step").c_str(), static_cast<long long>(launches), run_ms, alone,
                counted(rounds, "round").c_str());
}

std::string MeasuredSteps::json() const {
  JsonWriter w;
  w.begin_object().field("model", model).field("run_ms", run_ms).field("rounds", rounds).key("steps").begin_array();
  for (const MeasuredStep& s : steps) {
    w.begin_object().field("name", s.name).field("chosen", s.chosen).field("ms", s.ms).field("launches", s.launches);
    if (s.known.alone_ms >= 0) w.field("alone_ms", s.known.alone_ms);
    w.field("floor_warm_ms", s.floor_warm_ms).field("floor_cold_ms", s.floor_cold_ms).end_object();
  }
  w.end_array().end_object();
  return w.take();
}

}  // namespace peri::build
