// The loop: lower, judge, refuse a wrong choice, lower again.
#include "build/build.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/byte_text.hpp"
#include "base/clock.hpp"
#include "base/fault.hpp"
#include "build/in_run.hpp"
#include "build/known_verdict.hpp"
#include "build/last_word.hpp"
#include "build/proof.hpp"
#include "device/open.hpp"
#include "device/running.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "ir/bodies.hpp"
#include "judge/index_limit.hpp"
#include "judge/inputs.hpp"
#include "judge/sizes.hpp"
#include "judge/whole.hpp"

namespace peri::build {
namespace {

constexpr int64_t kJudgedIterations = 10000;  // of a loop on generated inputs, which may never end it
constexpr int kMaxRounds = 32;                // bounds the build where every round refuses a choice

bool is_own_limit(const Options& options) {
  return options.max_iterations == 0 || options.max_iterations > kJudgedIterations;
}
int64_t judged_iterations(const Options& options) {
  return is_own_limit(options) ? kJudgedIterations : options.max_iterations;
}

// A limit that no flag raises is told as the build's.
std::string told(std::string limit) {
  constexpr std::string_view kRemedy = "raise it with --max-iterations, or";
  if (const size_t at = limit.find(kRemedy); at != std::string::npos)
    limit.replace(at, kRemedy.size(),
                  "a build runs no more on inputs that it makes up: verify the engine with your own, or");
  return limit;
}

Result<judge::EngineVerdict> judge_it(const compile::Compilation& compilation, const compile::Compiled& compiled,
                                      const Options& options, runtime::EngineOptions engines) {
  engines.max_iterations = judged_iterations(options);
  const tune::Options& tune = options.compile.tune;
  runtime::WeightSource weights;
  weights.tensors = compiled.weights;
  PERI_ASSIGN(const auto engine, runtime::Engine::create(compiled.program, std::move(weights), engines));
  judge::Terms terms;
  terms.tuned_for = compilation.tuned_for();
  terms.bounds = compilation.bounds();
  terms.seed = kRunSeed;
  terms.stop = tune.stop;
  if (options.compile.progress)
    terms.progress = [&](const std::string& what, size_t done, size_t total) {
      options.compile.progress(done, total, what);
    };
  PERI_ASSIGN(judge::EngineVerdict verdict,
              judge::judge_engine(engine, compilation.imported(), compilation.graph(), terms));
  if (is_own_limit(options))
    for (judge::SizeEvidence& e : verdict.sizes) e.limit = told(std::move(e.limit));
  return verdict;
}

// Whether the elements of a list or scalar say the size of a result: the scales of a resize.
bool says_size(const ir::Graph& graph, const ir::Value* list) {
  std::set<std::string> given;
  for (const ir::Value* v : graph.inputs)
    for (const Dim& d : *v->type.shape) d.collect_symbols(given);
  return std::any_of(list->users.begin(), list->users.end(), [&](const ir::Node* n) {
    std::set<std::string> made;
    for (const ir::Value* out : n->outputs)
      for (const Dim& d : *out->type.shape) d.collect_symbols(made);
    return !std::includes(given.begin(), given.end(), made.begin(), made.end());
  });
}

// Whether the elements of some value, as of a mask, say how many elements another has: none or fewer, perhaps, than are
// read where the inputs are made up.
bool has_sizes_of_data(const ir::Graph& graph) {
  std::set<std::string> symbols;
  for (const auto& v : graph.values())
    for (const Dim& d : *v->type.shape) d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with(kDataDim); });
}

// Whether a small input (a k, a shape, scales, a switch), a size that the data say, a branch or a loop steers the
// model, or strings must be numbers: where it does not run, the made-up inputs or the iterations that a judge waits for
// may be to blame, and nothing is known.
bool is_steered(const ir::Graph& graph) {
  bool numbers = false;
  ir::for_each_node(graph, [&](const ir::Node& n) { numbers |= judge::reads_numbers(n); });
  return numbers || has_sizes_of_data(graph) ||
         std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [&](const ir::Value* v) {
                       const bool counts = is_integer(v->type.dtype) || v->type.dtype == DType::kBool;
                       return v->type.rank() <= 1 && (counts || says_size(graph, v));
                     }) ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::Node* n) { return ops::control_of(*n) != ops::Control::kNone; });
}

Error does_not_run(const DimBinding& sizes, const std::string& why) {
  Error e = invalid("the model does not run at %s: %s", judge::sizes_text(sizes).c_str(), why.c_str());
  if (sizes.empty()) return e;  // it has no others
  return std::move(e).advise("build for sizes that it can have: --dims NAME=N");
}

// A size that was asked for and at which the model never ran.
const judge::SizeEvidence* impossible(const compile::Compilation& compilation, const judge::EngineVerdict& verdict) {
  const bool steered = is_steered(compilation.graph());
  const auto asked = [&](const DimBinding& sizes) {
    const std::vector<DimBinding>& bounds = compilation.bounds();
    return sizes == compilation.tuned_for() || std::find(bounds.begin(), bounds.end(), sizes) != bounds.end();
  };
  for (const judge::SizeEvidence& e : verdict.sizes)
    if (!e.limit.empty() && !e.no_memory && asked(e.sizes) &&
        !(steered && judge::possible(compilation.graph(), e.sizes)))
      return &e;
  return nullptr;
}

// The tuned size, for which this machine has no memory: what cannot be run here is not said to be right.
Error no_memory(const DimBinding& sizes, const std::string& limit) {
  const char* const smaller =
      sizes.empty() ? "" : ", or build for smaller sizes: --dims NAME=N";  // it may have no others
  return Error(ErrorKind::kMemory, "the engine does not run at " + judge::sizes_text(sizes) + ": " + limit)
      .advise(format("give it more memory%s; --no-verify builds it without running it", smaller));
}
Status check_memory(const compile::Compilation& compilation, const judge::EngineVerdict& verdict) {
  for (const judge::SizeEvidence& e : verdict.sizes)
    if (e.no_memory && e.sizes == compilation.tuned_for()) return no_memory(e.sizes, e.limit);
  return Ok{};
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
  o.machine.isas = device::this_isas();
  o.machine.libraries = exec::libraries();
  o.threads = threads;
  return o;
}

Status open_devices(const plan::Program& p, runtime::EngineOptions* engines) {
  for (size_t d = 1 + engines->devices.size(); d < p.devices.size(); ++d) {
    PERI_ASSIGN(engines->devices.emplace_back(), device::open_device(device::which_of(p.devices[d], engines->device)));
  }
  return Ok{};
}

bool is_run_once(double flops, double predicted_ms) {
  constexpr double kMaxMs = 60e3;  // a build waits at most a minute for a run that is not judged
  return flops <= judge::kMaxRunFlops || (predicted_ms > 0 && predicted_ms <= kMaxMs);
}

namespace {
// One run at the tuned size, whose answers nobody judges: that it can be run is known at least. `must`: that there is
// no memory for it is an error.
Status run_once(const compile::Compilation& compilation, const runtime::EngineOptions& engines, bool must, Built* out) {
  const DimBinding& sizes = compilation.tuned_for();
  if (1 + engines.devices.size() < out->compiled.program.devices.size()) {
    out->unjudged_run = "such a build does not open its device";
    return Ok{};
  }
  const double flops = judge::flops_at(compilation.graph(), sizes);
  const StepsDone done = steps_done(*out);
  const bool known = std::isfinite(flops);  // else the data tell, and the run can be stopped
  if (known && !is_run_once(flops, done.measured == done.steps ? out->compiled.predicted_ms : 0)) {
    out->unjudged_run = format("one run takes %.0f Gflop", flops / 1e9);
    return Ok{};
  }
  if (std::string lack = judge::lacks_memory(out->compiled.program, sizes, false); !lack.empty()) {
    if (must) return no_memory(sizes, lack);
    out->unjudged_run = std::move(lack);
    return Ok{};
  }
  runtime::WeightSource weights;
  weights.tensors = out->compiled.weights;
  PERI_ASSIGN(const auto engine, runtime::Engine::create(out->compiled.program, std::move(weights), engines));
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  const auto& stop = compilation.options().tune.stop;
  session->stop_when(stop);
  Status ran = Ok{};
  for (const judge::Integers integers : {judge::Integers::kIndices, judge::Integers::kZero, judge::Integers::kOne}) {
    const auto inputs = judge::make_inputs(compilation.graph(), sizes, kRunSeed, integers);
    if (!inputs.ok() && must && inputs.error().kind == ErrorKind::kMemory)
      return no_memory(sizes, inputs.error().text());
    if (!inputs.ok()) break;
    const auto outputs = session->run(*inputs);
    ran = outputs.ok() ? Status(Ok{}) : Status(outputs.error());
    if (!ran.ok() && stop && stop()) {
      out->unjudged_run = "interrupted";
      return Ok{};
    }
    if (!ran.ok()) continue;
    out->unjudged_run = "";
    return Ok{};
  }
  // How far a loop grows follows from the values that it is given, here made up.
  const auto& steps = out->compiled.program.steps;
  const bool loops = std::any_of(steps.begin(), steps.end(), [](const plan::Step& s) { return !s.bodies.empty(); });
  if (!ran.ok() && must && !loops && ran.error().kind == ErrorKind::kMemory)
    return no_memory(sizes, ran.error().text());
  const bool blameless = is_steered(compilation.graph()) && judge::possible(compilation.graph(), sizes);
  if (ran.ok() || ran.error().kind == ErrorKind::kMemory || blameless) {
    out->unjudged_run = ran.ok() ? "no inputs could be made" : ran.error().text();
    return Ok{};
  }
  return does_not_run(sizes, ran.error().text());
}

// Values that lie in memory of their own, inputs and what steps make, and that no plan holds at these sizes: known
// before anything is tried. What is element-wise or moves may be part of a step.
Status check_value(const ir::Value& v, const DimBinding& sizes) {
  const auto dims = v.type.shape ? eval(*v.type.shape, sizes) : Result<std::vector<int64_t>>(invalid("unknown"));
  if (!dims.ok()) return Ok{};
  double bytes = dtype_bits(v.type.dtype) / 8.0;
  for (const int64_t d : *dims) bytes *= static_cast<double>(d);
  if (bytes <= static_cast<double>(plan::kMaxBufferBytes)) return Ok{};
  return Error(ErrorKind::kMemory, "a value would take " + bytes_text(bytes))
      .at_node(v.name)
      .expecting("at most " + bytes_text(static_cast<double>(plan::kMaxBufferBytes)))
      .advise(sizes.empty() ? "make it smaller in the model, whose sizes are fixed" : "give smaller sizes");
}
Status check_values(const ir::Graph& graph, const DimBinding& sizes) {
  for (const ir::Value* v : graph.inputs) PERI_TRY(check_value(*v, sizes));
  for (const ir::Node* n : graph.nodes) {
    const ops::OpDef* const op = ops::find(n->op);
    if (!op || op->elementwise || op->moves || ops::control_of(*n) != ops::Control::kNone) continue;
    for (const ir::Value* v : n->outputs) PERI_TRY(check_value(*v, sizes));
  }
  return Ok{};
}

bool is_judged_at(const judge::EngineVerdict& verdict, const DimBinding& sizes) {
  return std::any_of(verdict.sizes.begin(), verdict.sizes.end(),
                     [&](const judge::SizeEvidence& e) { return e.sizes == sizes; });
}

Result<Built> choose_and_judge(compile::Compilation* compilation, const Options& options,
                               runtime::EngineOptions* opened) {
  const auto& stop = options.compile.tune.stop;
  runtime::EngineOptions& engines = *opened;
  lower::RefusedChoices refused;
  Built out;
  // What the judge would find at the end is told before anything is tried.
  const DimBinding& sizes = compilation->tuned_for();
  PERI_TRY(check_values(compilation->graph(), sizes));
  PERI_TRY(judge::check_places(compilation->graph(), sizes, compilation->bounds()));
  if (options.judge)
    if (const auto lack = judge::lacks_memory(compilation->graph(), sizes); !lack.empty())
      return no_memory(sizes, lack);
  KnownVerdicts known(*compilation, kRunSeed, judged_iterations(options));
  for (int round = 0; round < kMaxRounds; ++round) {
    PERI_ASSIGN(out.compiled, compilation->lower(refused));
    if (round == 0) PERI_TRY(plan::plan_arena(out.compiled.program, sizes));  // a value that nothing can hold
    if (stop && stop()) return out;
    engines.device = out.compiled.program.devices.size() > 1 ? options.compile.device : "";
    if (round == 0 && options.compile.progress) options.compile.progress(0, 0, "the whole graph");
    if (round == 0)
      if (Status settled = settle_in_graph(compilation, &engines, &refused, &out); !settled.ok())
        out.compiled.notes.push_back("the whole graph was not timed: " + settled.error().text());
    if (stop && stop()) return out;
    if (options.compile.progress) options.compile.progress(0, 0, "the whole engine");
    if (!options.judge) {
      if (compilation->options().tune.measure) PERI_TRY(open_devices(out.compiled.program, &engines));
      PERI_TRY(run_once(*compilation, engines, false, &out));
      return out;
    }
    if (auto verdict = known.find(out.compiled)) {
      out.verdict = std::move(*verdict);
      return out;
    }
    PERI_TRY(open_devices(out.compiled.program, &engines));
    PERI_ASSIGN(out.verdict, judge_it(*compilation, out.compiled, options, engines));
    if (options.compile.progress)
      options.compile.progress(0, 0, format("the whole engine was judged in %.2f s", out.verdict.seconds));
    if (const judge::SizeEvidence* e = impossible(*compilation, out.verdict)) return does_not_run(e->sizes, e->limit);
    PERI_TRY(check_memory(*compilation, out.verdict));
    if (out.verdict.right()) {
      const double flops = judge::flops_at(compilation->graph(), sizes);
      const bool short_of_memory = !is_judged_at(out.verdict, sizes) && !out.verdict.lasting && !(stop && stop());
      if ((flops > judge::kMaxRunFlops && std::isfinite(flops)) || short_of_memory)  // beyond what is judged
        PERI_TRY(run_once(*compilation, engines, true, &out));
      known.keep(out.verdict);
      if (const std::string trouble = known.trouble(); !trouble.empty() && trouble != out.compiled.tuned.cache_trouble)
        out.compiled.notes.push_back(trouble);
      return out;
    }
    if (!out.verdict.fault)
      return Error(ErrorKind::kAccuracy,
                   "the engine's answer is wrong though each of its steps is right: " + out.verdict.wrong)
          .advise("a pass is at fault: please report it; --disable-pass NAME disables one");
    const judge::Fault& f = *out.verdict.fault;
    const lower::StepReport& step = out.compiled.steps[f.step];
    if (options.compile.lock) return cannot(f, "the lock asks for a choice that is wrong here: build without --locked");
    const bool known = refused[step.key].contains(f.candidate);
    if (step.chosen == "reference" || step.chosen == "sized" || known || f.candidate.empty())
      return cannot(f, "please report it");
    // What lost to it in the whole graph may be chosen again, and the times there are those of another program.
    for (const WholeGraph::Swap& s : out.whole.swaps)
      if (s.kept && s.key == step.key) refused[step.key].erase(s.chosen);
    out.whole = {};
    refused[step.key][f.candidate] = f.why;
    out.refused.push_back({f.name, step.key, f.candidate, f.why});
  }
  return cannot(*out.verdict.fault, "please report it");
}

// What the plan of every cover would say at the end is said before anything is tried.
compile::Options refusing(const Options& options) {
  compile::Options out = options.compile;
  if (options.judge)
    out.affords = [](const DimBinding& sizes, double bytes) -> Status {
      const std::string lack = judge::lacks_memory(bytes, "a run takes at least");
      return lack.empty() ? Status(Ok{}) : no_memory(sizes, lack);
    };
  return out;
}

// Where only made-up integers of one value ran, up to which size others do.
void name_limit(const compile::Compilation& compilation, Built* out) {
  const auto& sizes = out->verdict.sizes;
  const auto e = std::find_if(sizes.begin(), sizes.end(), [](const judge::SizeEvidence& s) { return s.integers >= 0; });
  if (e == sizes.end()) return;
  if (const auto limit = judge::index_limit(compilation.graph(), e->sizes, judge::Places::kOfInputs))
    out->index_limit = limit->text();
}

Result<Built> build_it(compile::Compilation* compilation, const Options& options) {
  runtime::EngineOptions engines = engine_options(options.executors, options.compile.tune.threads);
  engines.max_iterations = options.max_iterations;
  PERI_ASSIGN(Built out, choose_and_judge(compilation, options, &engines));
  engines.max_iterations = judged_iterations(options);
  name_limit(*compilation, &out);
  time_in_runs(*compilation, engines, &out);
  return out;
}
}  // namespace

Result<Built> build_engine(const Options& options) {
  const int64_t start = now_ns();
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(refusing(options)));
  PERI_ASSIGN(Built out, contained([&] { return build_it(compilation.get(), options); }));
  out.seconds = seconds_since(start);
  return out;
}

Result<Built> build_engine(const Options& options, compile::Imported model) {
  const int64_t start = now_ns();
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(refusing(options), std::move(model)));
  PERI_ASSIGN(Built out, contained([&] { return build_it(compilation.get(), options); }));
  out.seconds = out.compiled.import_seconds + seconds_since(start);
  return out;
}

}  // namespace peri::build
