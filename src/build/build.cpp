// Lower, judge, refuse, again.
#include "build/build.hpp"

#include <algorithm>

#include "base/fault.hpp"
#include "build/last_word.hpp"
#include "device/open.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"

namespace peri::build {
namespace {

constexpr int64_t kJudgedIterations = 10000;  // of a loop on made-up inputs: they may never end it
constexpr int kMaxRounds = 32;                // a graph of which every round refuses a choice is beyond help

Result<judge::EngineVerdict> judge_it(const compile::Compilation& compilation, const compile::Compiled& compiled,
                                      const Options& options, runtime::EngineOptions engines) {
  engines.max_iterations = std::min(engines.max_iterations, kJudgedIterations);
  const tune::Options& tune = options.compile.tune;
  runtime::WeightSource weights;
  weights.tensors = compiled.weights;
  PERI_ASSIGN(const auto engine, runtime::Engine::create(compiled.program, std::move(weights), engines));
  judge::Terms terms;
  terms.tuned_for = compilation.tuned_for();
  terms.bounds = compilation.bounds();
  terms.stop = tune.stop;
  if (options.compile.progress)
    terms.progress = [&](const std::string& what, size_t done, size_t total) {
      options.compile.progress(done, total, what);
    };
  return judge::judge_engine(engine, compilation.imported(), compilation.graph(), terms);
}

// A size that was asked for and at which the model never ran. Where a small integer input steers it (a k, a shape), the
// made-up ones may be to blame: then nothing is known.
const judge::SizeEvidence* impossible(const compile::Compilation& compilation, const judge::EngineVerdict& verdict) {
  for (const ir::Value* v : compilation.graph().inputs)
    if (is_integer(v->type.dtype) && v->type.rank() <= 1) return nullptr;
  const auto asked = [&](const DimBinding& sizes) {
    const std::vector<DimBinding>& bounds = compilation.bounds();
    return sizes == compilation.tuned_for() || std::find(bounds.begin(), bounds.end(), sizes) != bounds.end();
  };
  for (const judge::SizeEvidence& e : verdict.sizes)
    if (!e.limit.empty() && !e.no_memory && asked(e.sizes)) return &e;
  return nullptr;
}

Error cannot(const judge::Fault& f, std::string_view remedy) {
  return Error(ErrorKind::kAccuracy, format("'%s' is wrong in the engine: %s", f.candidate.c_str(), f.why.c_str()))
      .at_node(f.name)
      .advise(remedy);
}
}  // namespace

runtime::EngineOptions engine_options(runtime::ExecutorTable executors, int threads) {
  runtime::EngineOptions o;
  o.executors = executors;
  o.machine.isas = device::this_cpu().isas;
  o.machine.libraries = exec::libraries();
  o.threads = threads;
  return o;
}

namespace {
// The devices of a program, opened once for all engines of the build.
Status open_devices(const plan::Program& p, runtime::EngineOptions* engines) {
  for (size_t d = 1 + engines->devices.size(); d < p.devices.size(); ++d) {
    const bool chosen = !engines->device.empty() && device::kind_of(engines->device) == p.devices[d];
    PERI_ASSIGN(engines->devices.emplace_back(), device::open_device(chosen ? engines->device : p.devices[d]));
  }
  return Ok{};
}

Result<Built> build_it(compile::Compilation* compilation, const Options& options) {
  const auto& stop = options.compile.tune.stop;
  runtime::EngineOptions engines = engine_options(options.executors, options.compile.tune.threads);
  lower::RefusedChoices refused;
  Built out;
  for (int round = 0; round < kMaxRounds; ++round) {
    PERI_ASSIGN(out.compiled, compilation->lower(refused));
    if (stop && stop()) return out;
    engines.device = out.compiled.program.devices.size() > 1 ? options.compile.device : "";
    if (options.judge || compilation->options().tune.measure) PERI_TRY(open_devices(out.compiled.program, &engines));
    if (round == 0)
      if (Status settled = settle_in_graph(compilation, engines, &refused, &out); !settled.ok())
        out.compiled.notes.push_back("the whole graph was not timed: " + settled.error().text());
    if (!options.judge || (stop && stop())) return out;
    PERI_ASSIGN(out.verdict, judge_it(*compilation, out.compiled, options, engines));
    if (const judge::SizeEvidence* e = impossible(*compilation, out.verdict))
      return invalid("the model does not run at %s: %s", judge::sizes_text(e->sizes).c_str(), e->limit.c_str())
          .advise("build for sizes that it can have: --dims NAME=N");
    if (out.verdict.right()) return out;
    if (!out.verdict.fault)
      return Error(ErrorKind::kAccuracy,
                   "the engine's answer is wrong though each of its steps is right: " + out.verdict.wrong)
          .advise("a rewriting of the graph is at fault: please report it; --disable-pass NAME leaves one out");
    const judge::Fault& f = *out.verdict.fault;
    const lower::StepReport& step = out.compiled.steps[f.step];
    if (options.compile.lock) return cannot(f, "the lock asks for a choice that is wrong here: build without --locked");
    const bool known = refused[step.key].contains(f.candidate);
    if (step.chosen == "reference" || known || f.candidate.empty()) return cannot(f, "please report it");
    // What lost to it in the whole graph may be chosen again, and the times there are those of another program.
    for (const WholeGraph::Swap& s : out.whole.swaps)
      if (s.kept && s.key == step.key) refused[step.key].erase(s.chosen);
    out.whole = {};
    refused[step.key][f.candidate] = f.why;
    out.refused.push_back({f.name, step.key, f.candidate, f.why});
  }
  return cannot(*out.verdict.fault, "please report it");
}
}  // namespace

Result<Built> build_engine(const Options& options) {
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(options.compile));
  return contained([&] { return build_it(compilation.get(), options); });
}

Result<Built> build_engine(const Options& options, compile::Imported model) {
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(options.compile, std::move(model)));
  return contained([&] { return build_it(compilation.get(), options); });
}

}  // namespace peri::build
