// peri verify: an engine's answers lie within their budget of the float64 reference, of files, of ONNX Runtime, or of a
// suite's outputs; and where they do not, which step is the first to be wrong.
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/npy.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "cli/console/suite.hpp"
#include "judge/difference.hpp"
#include "judge/peer.hpp"
#include "judge/source.hpp"
#include "judge/steps.hpp"
#include "judge/whole.hpp"

namespace peri::cli {
namespace {

struct Budget {
  double max_error = 1e-4, min_cosine = -1, max_change = INFINITY;
  bool given = false;  // then it holds for every type
  Tolerance tolerance;
};

Result<std::vector<uint64_t>> seeds(const Arguments& arguments) {
  std::vector<uint64_t> out;
  for (const std::string& text : arguments.all("--seed")) {
    uint64_t v = 0;
    if (auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
        code != std::errc() || end != text.data() + text.size())
      return usage("--seed is not a whole number").but_found(text);
    out.push_back(v);
  }
  if (out.empty()) out = {1, 2};
  if (arguments.has("--input")) out.resize(1);
  return out;
}

// What is verified: an engine and the graph it must agree with.
struct Subject {
  std::shared_ptr<const runtime::Engine> engine;
  ir::Graph reference;
  std::shared_ptr<const MappedFile> file;
  std::function<Status()> check_files;
  int64_t weights_checked = 0;
};

Result<Subject> open_subject(const Arguments& arguments, const std::string& path, Progress* progress) {
  Subject s;
  PERI_ASSIGN(const int threads, thread_count(arguments));
  if (is_engine(path)) {
    PERI_ASSIGN(plan::LoadedEngine loaded, plan::load_engine(path));
    PERI_TRY(plan::check_weights(loaded));
    s.weights_checked = static_cast<int64_t>(loaded.program.weights.size());
    s.file = loaded.file;
    if (arguments.has("--bisect") || (!arguments.has("--reference-dir") && !arguments.has("--onnxruntime"))) {
      PERI_ASSIGN(s.reference, source_graph(loaded));
    }
    PERI_ASSIGN(s.engine, engine_of(std::move(loaded), threads));
    return s;
  }
  PERI_ASSIGN(const compile::Options options, build_options(arguments, path, progress));
  auto imported = compile::import_any(path);
  if (!imported.ok()) return std::move(imported).error().in_file(path);
  s.reference = std::move(imported->graph);  // before any pass: the passes are judged too
  s.check_files = std::move(imported->check_files);
  PERI_ASSIGN(compile::Compiled compiled, compile_whole(options, progress));
  PERI_ASSIGN(s.engine, assemble(&compiled, threads));
  return s;
}

// The reference does 0.1 to 1 Gflop a second: up to an hour or some.
constexpr double kMostTflop = 1;

Status affordable(const Subject& s, std::span<const Tensor> inputs) {
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : inputs) dims.push_back(t.dims());
  PERI_ASSIGN(const DimBinding sizes, plan::bind_dims(s.engine->program(), dims));
  const double tflop = judge::flops_at(s.reference, sizes) / 1e12;
  if (tflop <= kMostTflop || std::isinf(tflop)) return Ok{};
  return refused("the float64 reference would take hours")
      .expecting(format("at most %.3g Tflop", kMostTflop))
      .but_found(format("%.3g Tflop", tflop))
      .advise("give smaller sizes with --dims, or compare with --onnxruntime or --reference-dir");
}

Result<std::vector<Tensor>> reference_outputs(const Subject& s, std::span<const Tensor> inputs, int threads) {
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  PERI_ASSIGN(const auto out, ops::run_reference(s.reference, in, {0, threads, false, {}}));
  std::vector<Tensor> tensors;
  for (const ops::RefTensor& r : out) tensors.push_back(ops::from_ref(r));
  return tensors;
}

Result<std::vector<Tensor>> file_outputs(const std::string& dir, const plan::Program& program) {
  std::vector<Tensor> out;
  for (const plan::Port& p : program.outputs) {
    PERI_ASSIGN(Tensor t, read_npy(dir + "/" + percent_encode_name(p.name) + ".npy", p.dtype));
    out.push_back(std::move(t));
  }
  return out;
}

// By default, coarse types need not be nearer than their own rounding lets them.
double budget_for(const Budget& b, DType type) {
  if (!is_float(type)) return 0;
  return b.given ? b.max_error : std::max(b.max_error, 8 * unit_roundoff(type));
}

bool inside(const Difference& d, const Budget& b, DType type) {
  if (!is_float(type)) return d.l0 == 0;
  return d.relative <= budget_for(b, type) && d.cosine >= b.min_cosine;
}

// Runs the engine once, as it runs, with every step judged; names the first wrong step in words and adds all verdicts
// to the JSON object.
Result<std::string> run_bisect(const Subject& s, runtime::Session& session, std::span<const Tensor> inputs,
                               Progress* progress, JsonWriter& w, bool* wrong) {
  const plan::Program& program = s.engine->program();
  judge::Values source;
  if (s.weights_checked && !s.reference.nodes.empty()) {
    progress->show(0, 0, "the source's values in float64");
    std::vector<std::vector<int64_t>> dims;
    for (const Tensor& t : inputs) dims.push_back(t.dims());
    PERI_ASSIGN(const DimBinding binding, plan::bind_dims(program, dims));
    PERI_ASSIGN(source, judge::source_values(s.reference, program, binding, inputs, s.engine->options().threads));
  }
  size_t at = 0;
  const auto show = [&](size_t step, size_t steps) { progress->show(step, steps, program.steps[step].name); };
  PERI_ASSIGN(const judge::JudgedRun run, judge::judge_steps(session, inputs, source, show, &at));
  progress->clear();
  int64_t judged = 0;
  w.key("bisect").begin_array();
  for (const judge::StepVerdict& v : run.steps) {
    judged += v.checked;
    w.begin_object()
        .field("step", static_cast<int64_t>(v.step))
        .field("name", v.name)
        .field("kernel", v.kernel)
        .field("checked", v.checked)
        .field("error_over_bound", v.error)
        .field("why", v.why)
        .end_object();
  }
  w.end_array();
  *wrong = run.wrong();
  if (!run.wrong())
    return format("each of %lld judged steps of %zu is within its own bound", static_cast<long long>(judged),
                  run.steps.size());
  const judge::StepVerdict& v = run.steps.back();
  return format("the first step outside its bound is %zu, '%s' (%s): %s", v.step, v.name.c_str(), v.kernel.c_str(),
                v.why.c_str());
}

Result<Budget> budget_of(const Arguments& arguments) {
  Budget b;
  const bool peer = arguments.has("--onnxruntime");
  PERI_ASSIGN(b.max_error, arguments.real("--max-error", 0, INFINITY, 1e-4));
  b.given = arguments.has("--max-error");
  PERI_ASSIGN(b.min_cosine, arguments.real("--min-cosine", -1, 1, peer ? 0.9999 : -1));
  PERI_ASSIGN(b.max_change, arguments.real("--max-change", 0, INFINITY, peer ? 1e-3 : INFINITY));
  PERI_ASSIGN(b.tolerance.rtol, arguments.real("--rtol", 0, INFINITY, 1e-3));
  PERI_ASSIGN(b.tolerance.atol, arguments.real("--atol", 0, INFINITY, 1e-5));
  return b;
}

// The ONNX file that ONNX Runtime shall run: the model itself, or for an engine the one that --model names.
Result<std::string> peer_model(const Arguments& arguments, const std::string& path) {
  const std::string model = arguments.has("--model") ? arguments.get("--model") : path;
  if (is_engine(model))
    return usage("--onnxruntime needs the model that the engine was made of")
        .expecting("--model MODEL.onnx")
        .in_file(path);
  if (std::filesystem::is_directory(model))
    return usage("ONNX Runtime runs ONNX files only")
        .in_file(model)
        .advise("verify a folder against the float64 reference: leave --onnxruntime out");
  return model;
}

// One run for each seed: inputs, our answers, and those they are held against.
struct Runs {
  std::vector<uint64_t> seeds;
  std::vector<std::vector<Tensor>> inputs, got, want;
  std::string against;
};

Result<Runs> make_runs(const Arguments& arguments, const std::string& path, const Subject& s, runtime::Session& session,
                       Progress* progress) {
  Runs r;
  const plan::Program& program = s.engine->program();
  const std::string dir = arguments.get("--reference-dir");
  PERI_ASSIGN(r.seeds, seeds(arguments));
  PERI_ASSIGN(const int threads, thread_count(arguments));
  for (uint64_t seed : r.seeds) {
    PERI_ASSIGN(std::vector<Tensor> inputs,
                read_inputs(arguments, program, dir.empty() ? std::optional<uint64_t>(seed * 1000) : std::nullopt));
    if (dir.empty() && !arguments.has("--onnxruntime")) PERI_TRY(affordable(s, inputs));
    PERI_ASSIGN(std::vector<Tensor> got, session.run(inputs));
    if (!arguments.has("--onnxruntime")) {
      progress->show(0, 0, "the float64 reference, seed " + std::to_string(seed));
      PERI_ASSIGN(std::vector<Tensor> want,
                  dir.empty() ? reference_outputs(s, inputs, threads) : file_outputs(dir, program));
      r.want.push_back(std::move(want));
    }
    r.inputs.push_back(std::move(inputs));
    r.got.push_back(std::move(got));
  }
  r.against = dir.empty() ? "float64 reference" : dir;
  if (arguments.has("--onnxruntime")) {
    PERI_ASSIGN(const std::string model, peer_model(arguments, path));
    progress->show(0, 0, "ONNX Runtime");
    PERI_ASSIGN(r.want, onnxruntime_outputs(model, program, r.inputs, threads));
    r.against = "ONNX Runtime";
  }
  progress->clear();
  return r;
}

// The largest change of output k between the wanted answers of run n and of its neighbour; none where their shapes
// differ.
std::optional<double> change_of(const Runs& r, size_t n, size_t k) {
  if (r.want.size() < 2) return std::nullopt;
  const auto d = difference(r.want[n][k], r.want[n + 1 < r.want.size() ? n + 1 : n - 1][k], {});
  if (!d.ok() || !is_float(r.want[n][k].dtype())) return std::nullopt;
  return d->linf;
}

// Prints and writes every output of every run; `worst` is the largest error of an output's range. What is wrong first,
// in words.
Result<std::string> compare_runs(const Runs& r, const plan::Program& program, const Budget& budget, const Page& page,
                                 JsonWriter& w, double* worst) {
  std::string bad;
  page.line("%-6s %-24s %10s %10s %10s %10s %10s %10s %12s", "seed", "output", "l0", "l1", "l2", "lInf", "of range",
            "of change", "cosine");
  for (size_t n = 0; n < r.got.size(); ++n)
    for (size_t k = 0; k < r.got[n].size(); ++k) {
      const std::string& name = program.outputs[k].name;
      const Tensor& got = r.got[n][k];
      auto d = difference(r.want[n][k], got, budget.tolerance);
      if (!d.ok()) return std::move(d).error().at_node(name);
      const std::optional<double> change = change_of(r, n, k);
      const double of_change = !change || d->linf == 0 ? 0 : d->linf / *change;
      const bool good = inside(*d, budget, got.dtype()) && !(of_change > budget.max_change);
      page.line("%-6llu %-24s %10.3g %10.3g %10.3g %10.3g %10.3g %10s %12.9f%s",
                static_cast<unsigned long long>(r.seeds[n]), name.c_str(), d->l0, d->l1, d->l2, d->linf, d->relative,
                change ? format("%.3g", of_change).c_str() : "-", d->cosine, good ? "" : "  OUTSIDE");
      w.begin_object()
          .field("seed", static_cast<int64_t>(r.seeds[n]))
          .field("output", name)
          .field("type", tensor_type_text(got))
          .field("inside", good);
      write_difference(w, *d);
      if (change) w.field("of_change", of_change);
      w.end_object();
      *worst = std::max(*worst, d->relative);
      if (!good && bad.empty())
        bad = format("output '%s' is outside its budget at seed %llu: error %.3g of its range, allowed %.3g",
                     name.c_str(), static_cast<unsigned long long>(r.seeds[n]), d->relative,
                     budget_for(budget, got.dtype()));
    }
  return bad;
}

Result<Outcome> verify_model(const Arguments& arguments, const std::string& path) {
  PERI_ASSIGN(const Budget budget, budget_of(arguments));
  if (arguments.has("--reference-dir")) {
    if (!arguments.has("--input"))
      return usage("--reference-dir needs the inputs its files came from").expecting("--input NAME=FILE");
    if (arguments.has("--onnxruntime")) return usage("--reference-dir and --onnxruntime exclude each other");
  }
  if (arguments.has("--model") && !arguments.has("--onnxruntime")) return usage("--model is for --onnxruntime");
  if (arguments.has("--onnxruntime")) PERI_TRY(peer_model(arguments, path));
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Subject s, open_subject(arguments, path, &progress));
  const plan::Program& program = s.engine->program();
  PERI_ASSIGN(const auto session, runtime::Session::create(s.engine));
  PERI_ASSIGN(const Runs runs, make_runs(arguments, path, s, *session, &progress));
  const Page page(arguments);
  JsonWriter w;
  w.begin_object()
      .field("model", path)
      .field("against", runs.against)
      .field("max_error", budget.max_error)
      .field("weights_checked", s.weights_checked)
      .key("outputs")
      .begin_array();
  double worst = 0;
  auto compared = compare_runs(runs, program, budget, page, w, &worst);
  if (!compared.ok()) return std::move(compared).error().in_file(path);
  w.end_array();
  if (s.file) PERI_TRY(s.file->check());
  if (s.check_files) PERI_TRY(s.check_files());
  Outcome out;
  out.summary = compared->empty()
                    ? format("%zu runs against %s, largest error %.3g of the output's range, allowed %.3g",
                             runs.seeds.size(), runs.against.c_str(), worst, budget.max_error)
                    : *compared;
  if (s.weights_checked) out.summary += "; " + std::to_string(s.weights_checked) + " weights intact";
  bool step_wrong = false;
  if (arguments.has("--bisect")) {
    PERI_ASSIGN(const std::string words, run_bisect(s, *session, runs.inputs.back(), &progress, w, &step_wrong));
    page.line("%s", words.c_str());
    out.summary += "; " + words;
  }
  const bool passed = compared->empty() && !step_wrong;
  w.field("passed", passed).end_object();
  out.json = w.take();
  out.code = passed ? 0 : 3;
  return out;
}

Result<Outcome> run(const Arguments& arguments) {
  if (arguments.has("--suite")) {
    if (!arguments.positional.empty()) return usage("--suite takes no model");
    return verify_suite(arguments, arguments.get("--suite"));
  }
  for (const char* flag : {"--memory", "--filter", "--min-passed"})
    if (arguments.has(flag)) return usage("%s is for --suite", flag);
  if (!arguments.positional.empty()) return verify_model(arguments, arguments.positional[0]);
  return usage("peri verify needs MODEL, ENGINE or --suite DIR").advise("see: peri verify --help");
}
}  // namespace

extern const Entry verify_entry;
const Entry verify_entry{{
    .name = "verify",
    .summary = "compare answers with the float64 reference, with files or with ONNX Runtime, or run a suite of cases",
    .positional = "[MODEL|ENGINE]",
    .min_positional = 0,
    .max_positional = 1,
    .flags = build_flags(
        {{"--seed", "", "N", "seed of the random inputs (default 1 and 2)", true},
         {"--input", "-i", "NAME=FILE", "an input: a .npy or .pb file, or random:SEED", true},
         {"--reference-dir", "", "DIR", "compare with DIR/NAME.npy of each output instead of the reference"},
         {"--onnxruntime", "", "",
          "compare with ONNX Runtime of the Python that PERI_PYTHON names (else the project's, else python3)"},
         {"--model", "", "MODEL.onnx", "with --onnxruntime and an ENGINE: the model it was made of"},
         {"--max-error", "", "X", "largest error allowed, as a share of the output's range (default 1e-4)"},
         {"--min-cosine", "", "X", "least cosine allowed, means subtracted (default: none; 0.9999 with --onnxruntime)"},
         {"--max-change", "", "X",
          "largest error allowed, as a share of the change between the answers of two seeds (default: none; 1e-3 with "
          "--onnxruntime)"},
         {"--rtol", "", "X", "l0 counts elements outside atol + rtol * |wanted| (default 1e-3)"},
         {"--atol", "", "X", "see --rtol (default 1e-5)"},
         {"--bisect", "", "",
          "judge every step of a run on the inputs it had and name the first one outside its bound"},
         {"--suite", "", "DIR", "run DIR/*/model.onnx on its test_data_set_* in this process"},
         {"--min-passed", "", "N", "with --suite: exit code 3 too when fewer cases pass"},
         {"--filter", "", "TEXT", "only cases of the suite whose name holds TEXT"},
         {"--memory", "", "HOW",
          "with --suite: planned (default), poisoned before each run, or separate: poisoned and guarded"}}),
    .details = "Exit code 3 when an answer is outside its budget.\n\nexample:\n  peri verify models/digits_cnn.onnx "
               "--dims batch=3 --seed 7 --bisect\n  peri verify models/digits_cnn.onnx --onnxruntime --dims batch=3\n  "
               "peri verify --suite build/suites/node --filter conv",
    .run = run,
}};

}  // namespace peri::cli
