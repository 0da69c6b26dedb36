// A session, the times of its steps, and a table of them in the order of the run.
#include "cli/console/measured.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "bench/step_graphs.hpp"
#include "build/proof.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "judge/seeded.hpp"
#include "tune/evidence.hpp"

namespace peri::cli {

namespace {
constexpr double kSeconds = 2;

// What the tuner found for each step of the program; -1: nothing.
std::vector<double> alone_ms(const Opened& opened, const std::string& path) {
  std::vector<double> out(opened.engine->program().steps.size(), -1);
  if (opened.compiled) {
    for (size_t k = 0; k < std::min(out.size(), opened.compiled->steps.size()); ++k)
      out[k] = opened.compiled->steps[k].evidence.time_ms;
    return out;
  }
  const auto proof = build::read_proof(path);
  const Json* const steps = proof.ok() ? proof->find("steps") : nullptr;
  for (size_t k = 0; steps && k < std::min(out.size(), steps->items().size()); ++k)
    if (const Json* e = steps->items()[k].find("evidence"))
      if (const auto known = tune::read_evidence(*e); known.ok()) out[k] = known->time_ms;
  return out;
}

std::string chosen(const plan::Step& s) {
  const std::string& payload = s.variants[0].payload;
  return payload.empty() ? s.executor : payload.substr(0, payload.find('\n'));
}

std::string json_of(const plan::Program& p, const bench::StepTimes& t, const std::vector<double>& alone) {
  JsonWriter w;
  w.begin_object()
      .field("model", p.name)
      .field("run_ms", t.run_ms)
      .field("rounds", t.rounds)
      .key("steps")
      .begin_array();
  for (size_t k = 0; k < t.steps.size(); ++k) {
    w.begin_object().field("name", p.steps[t.steps[k]].name).field("chosen", chosen(p.steps[t.steps[k]]));
    w.field("ms", t.ms[k]);
    if (alone[t.steps[k]] >= 0) w.field("alone_ms", alone[t.steps[k]]);
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
  const std::vector<double> alone = alone_ms(opened, path);
  const Page page(arguments);
  page.line("us: of the step in the run, by graphs of the first k steps; alone: as the tuner timed it");
  page.line("%9s %6s %9s  step [chosen]", "us", "share", "alone us");
  double sum_alone = 0;
  for (size_t k = 0; k < times.steps.size(); ++k) {
    const double own = alone[times.steps[k]];
    sum_alone += std::max(0.0, own);
    const plan::Step& s = p.steps[times.steps[k]];
    page.line("%9.2f %5.1f%% %9s  %s  [%s]", times.ms[k] * 1e3, times.run_ms > 0 ? 100 * times.ms[k] / times.run_ms : 0,
              own >= 0 ? format("%.2f", own * 1e3).c_str() : "-", s.name.c_str(), chosen(s).c_str());
  }
  Outcome out;
  out.json = json_of(p, times, alone);
  out.summary = format("%zu steps on the device, %.4f ms the run, %.4f ms the steps alone, %lld rounds",
                       times.steps.size(), times.run_ms, sum_alone, static_cast<long long>(times.rounds));
  return out;
}

}  // namespace peri::cli
