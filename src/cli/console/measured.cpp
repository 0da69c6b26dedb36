// A session, the times of its steps, and a table of them in run order.
#include "cli/console/measured.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/plural.hpp"
#include "bench/gpu_ceilings.hpp"
#include "bench/step_graphs.hpp"
#include "build/proof.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "device/cuda/cuda.hpp"
#include "judge/seeded.hpp"
#include "tune/evidence.hpp"
#include "tune/work.hpp"

namespace peri::cli {

namespace {
constexpr double kSeconds = 2;

// Facts about a step from the build.
struct Known {
  double alone_ms = -1;  // time measured by the tuner; -1: not measured
  tune::RegionWork work = {};
};

std::vector<Known> known_of(const Opened& opened, const std::string& path) {
  std::vector<Known> out(opened.engine->program().steps.size());
  if (opened.compiled) {
    for (size_t k = 0; k < std::min(out.size(), opened.compiled->steps.size()); ++k)
      out[k] = {opened.compiled->steps[k].evidence.time_ms, opened.compiled->steps[k].work};
    return out;
  }
  const auto proof = build::read_proof(path);
  const Json* const steps = proof.ok() ? proof->find("steps") : nullptr;
  for (size_t k = 0; steps && k < std::min(out.size(), steps->items().size()); ++k) {
    const Json& step = steps->items()[k];
    if (const Json* e = step.find("evidence"))
      if (const auto evidence = tune::read_evidence(*e); evidence.ok()) out[k].alone_ms = evidence->time_ms;
    if (const Json* w = step.find("work"))
      if (auto work = tune::read_work(*w); work.ok()) out[k].work = *work;
  }
  return out;
}

// Lower bounds of a step's time, with all data in the device's last-level cache and in its memory; 0: unknown.
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
  const std::string& payload = s.variants[0].payload;
  return payload.empty() ? s.executor : payload.substr(0, payload.find('\n'));
}

std::string json_of(const plan::Program& p, const bench::StepTimes& t, const std::vector<Known>& known,
                    const Floors& floors) {
  JsonWriter w;
  w.begin_object()
      .field("model", p.name)
      .field("run_ms", t.run_ms)
      .field("rounds", t.rounds)
      .key("steps")
      .begin_array();
  for (size_t k = 0; k < t.steps.size(); ++k) {
    w.begin_object().field("name", p.steps[t.steps[k]].name).field("chosen", chosen(p.steps[t.steps[k]]));
    const Known& of = known[t.steps[k]];
    w.field("ms", t.ms[k]).field("launches", t.work[k]);
    if (of.alone_ms >= 0) w.field("alone_ms", of.alone_ms);
    w.field("floor_warm_ms", floors.warm.floor_ms(of.work.least))
        .field("floor_cold_ms", floors.cold.floor_ms(of.work.least));
    w.end_object();
  }
  w.end_array().end_object();
  return w.take();
}
}  // namespace

Result<Outcome> explain_measured(const Arguments& arguments) {
  const std::string& path = arguments.positional[0];
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Opened opened, open_model(arguments, path, &progress));
  progress.clear();
  const plan::Program& p = opened.engine->program();
  PERI_ASSIGN(const DimBinding dims, program_dims(arguments, p));
  PERI_ASSIGN(const std::vector<Tensor> inputs, judge::random_inputs(p, dims, 1));
  PERI_ASSIGN(const auto session, runtime::Session::create(opened.engine));
  PERI_TRY(session->run(inputs));
  PERI_ASSIGN(const bench::StepTimes times, bench::time_steps(*session, kSeconds));
  const std::vector<Known> known = known_of(opened, path);
  const Floors floors(opened.engine->device(p.steps[times.steps[0]].device));
  const Page page(arguments);
  page.line("us: of the step in the run, by graphs of the first k steps; alone: as the tuner timed it");
  page.line("floor: the least that the chip allows, with all in its last cache (warm) and in its memory (cold)");
  page.line("%9s %6s %9s %9s %9s %3s  step [chosen]", "us", "share", "alone us", "warm us", "cold us", "n");
  double alone = 0;
  int64_t launches = 0;
  for (size_t k = 0; k < times.steps.size(); ++k) {
    const Known& of = known[times.steps[k]];
    alone += std::max(0.0, of.alone_ms);
    launches += times.work[k];
    const plan::Step& s = p.steps[times.steps[k]];
    page.line("%9.2f %5.1f%% %9s %9.2f %9.2f %3lld  %s  [%s]", times.ms[k] * 1e3,
              times.run_ms > 0 ? 100 * times.ms[k] / times.run_ms : 0,
              of.alone_ms >= 0 ? format("%.2f", of.alone_ms * 1e3).c_str() : "-",
              floors.warm.floor_ms(of.work.least) * 1e3, floors.cold.floor_ms(of.work.least) * 1e3,
              static_cast<long long>(times.work[k]), s.name.c_str(), chosen(s).c_str());
  }
  Outcome out;
  out.json = json_of(p, times, known, floors);
  out.summary = format("%s on the device, %lld launched or copied, %.4f ms the run, %.4f ms the steps alone, %s",
                       counted(std::ssize(times.steps), "step").c_str(), static_cast<long long>(launches), times.run_ms,
                       alone, counted(times.rounds, "round").c_str());
  return out;
}

}  // namespace peri::cli
