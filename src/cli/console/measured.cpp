// The table of measured steps, in run order.
#include "cli/console/measured.hpp"

#include "build/measured.hpp"
#include "build/proof.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {

Result<Outcome> explain_measured(const Arguments& arguments) {
  const std::string& path = arguments.positional[0];
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Opened opened, open_model(arguments, path, &progress));
  progress.clear();
  PERI_ASSIGN(const DimBinding dims, program_dims(arguments, opened.engine->program()));
  std::vector<build::KnownStep> known;
  if (opened.compiled)
    known = build::known_steps(*opened.compiled);
  else if (const auto proof = build::read_proof(path); proof.ok())
    known = build::known_steps(*proof);
  PERI_ASSIGN(const build::MeasuredSteps measured, build::measure_steps(opened.engine, dims, known));
  const Page page(arguments);
  page.line("us: of the step in the run, by graphs of the first k steps; alone: as the tuner timed it");
  page.line("floor: the least that the chip allows, with all in its last cache (warm) and in its memory (cold)");
  page.line("%9s %6s %9s %9s %9s %3s  step [chosen]", "us", "share", "alone us", "warm us", "cold us", "n");
  for (const build::MeasuredStep& s : measured.steps)
    page.line("%9.2f %5.1f%% %9s %9.2f %9.2f %3lld  %s  [%s]", s.ms * 1e3,
              measured.run_ms > 0 ? 100 * s.ms / measured.run_ms : 0,
              s.known.alone_ms >= 0 ? format("%.2f", s.known.alone_ms * 1e3).c_str() : "-", s.floor_warm_ms * 1e3,
              s.floor_cold_ms * 1e3, static_cast<long long>(s.launches), s.name.c_str(), s.chosen.c_str());
  Outcome out;
  out.json = measured.json();
  out.summary = measured.text();
  return out;
}

}  // namespace peri::cli
