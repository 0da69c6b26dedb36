// peri verify: compares an engine's outputs with the float64 reference, files, ONNX Runtime or a suite's outputs, and
// names the first wrong step.
#include <algorithm>
#include <charconv>
#include <map>

#include "base/json.hpp"
#include "base/kept_files.hpp"
#include "base/plural.hpp"
#include "base/thread_pool.hpp"
#include "build/on_reference.hpp"
#include "build/subject.hpp"
#include "cli/console/columns.hpp"
#include "cli/console/made_up.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "cli/console/texts.hpp"
#include "compile/backends.hpp"
#include "hf/import.hpp"

namespace peri::cli {
namespace {

Result<std::vector<uint64_t>> seeds(const Arguments& arguments) {
  std::vector<uint64_t> out;
  for (const std::string& text : arguments.all("--seed")) {
    uint64_t v = 0;
    if (auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
        code != std::errc() || end != text.data() + text.size())
      return usage("--seed is not in range").expecting("a whole number from 0 to 18446744073709551615").but_found(text);
    if (std::find(out.begin(), out.end(), v) != out.end())
      return usage("--seed %s is given twice", text.c_str()).advise("give each seed once: a run is the same again");
    out.push_back(v);
  }
  const bool given = arguments.has("--input") || arguments.has("--text");
  if (given && out.size() > 1)
    return usage("--seed is given more than once, and with %s there is one run",
                 arguments.has("--text") ? "--text" : "--input")
        .advise("give it once");
  if (out.empty()) out = {1, 2};
  if (given) out.resize(1);
  if (out.size() < 2 && arguments.has("--max-change"))
    return usage("--max-change is a share of the change between two runs")
        .expecting("two --seed, and neither --input nor --text");
  return out;
}

Result<judge::Budget> budget_of(const Arguments& arguments) {
  judge::Budget b = arguments.has("--onnxruntime") ? judge::peer_budget() : judge::Budget();
  PERI_ASSIGN(b.max_error, arguments.real("--max-error", 0, INFINITY, b.max_error));
  b.given = arguments.has("--max-error");
  b.nan_equal = arguments.has("--nan-equal");
  PERI_ASSIGN(b.min_cosine, arguments.real("--min-cosine", -1, 1, b.min_cosine));
  PERI_ASSIGN(b.max_change, arguments.real("--max-change", 0, INFINITY, b.max_change));
  PERI_ASSIGN(b.tolerance.rtol, arguments.real("--rtol", 0, INFINITY, b.tolerance.rtol));
  PERI_ASSIGN(b.tolerance.atol, arguments.real("--atol", 0, INFINITY, b.tolerance.atol));
  return b;
}

// The ONNX file for ONNX Runtime: the model itself, or for an engine the file of --model.
Result<std::string> peer_model(const Arguments& arguments, const std::string& path) {
  const std::string model = arguments.has("--model") ? arguments.get("--model") : path;
  if (build::is_engine(model) && arguments.has("--model"))
    return usage("--model is an engine, and ONNX Runtime needs the model that it was made of")
        .in_file(model)
        .expecting("--model MODEL.onnx");
  if (build::is_engine(model))
    return usage("--onnxruntime needs the model that the engine was made of")
        .expecting("--model MODEL.onnx")
        .in_file(path);
  if (arguments.has("--text") && hf::is_folder(model) && !arguments.has("--model"))
    return usage("with --onnxruntime the folder's ONNX file is judged, which takes ids in place of texts")
        .in_file(model)
        .advise("give --input NAME=FILE, or verify against the float64 reference: leave --onnxruntime out");
  auto file = hf::onnx_file_of(model);
  if (!file.ok())
    return std::move(file).error().advise("verify a folder against the float64 reference: leave --onnxruntime out");
  return file;
}

// The terms of the comparison; contradictions are refused before any work.
Result<judge::VerifyTerms> terms_of(const Arguments& arguments, const std::string& path) {
  judge::VerifyTerms t;
  PERI_ASSIGN(t.budget, budget_of(arguments));
  PERI_ASSIGN(t.seeds, seeds(arguments));
  PERI_ASSIGN(t.threads, thread_count(arguments));
  t.steps_only = arguments.has("--steps-only");
  t.bisect = arguments.has("--bisect") || t.steps_only;
  if (t.steps_only) {
    for (const char* flag :
         {"--onnxruntime", "--reference-dir", "--max-error", "--min-cosine", "--max-change", "--rtol", "--atol"})
      if (arguments.has(flag)) return usage("%s compares outputs, and --steps-only compares none", flag);
    if (arguments.all("--seed").size() > 1)
      return usage("--seed is given more than once, and with --steps-only there is one run").advise("give it once");
  }
  t.reference_dir = arguments.get("--reference-dir");
  if (arguments.has("--reference-dir")) {
    if (!arguments.has("--input") && !arguments.has("--text"))
      return usage("--reference-dir needs the inputs its files came from").expecting("--input NAME=FILE, or --text");
    if (arguments.has("--onnxruntime")) return usage("--reference-dir and --onnxruntime exclude each other");
  }
  if (arguments.has("--model") && !arguments.has("--onnxruntime")) return usage("--model is for --onnxruntime");
  if (arguments.has("--onnxruntime")) {
    PERI_ASSIGN(t.peer_model, peer_model(arguments, path));
  }
  return t;
}

// `given`: the inputs are no seed's.
void print(const Page& page, const judge::Verification& v, bool given) {
  constexpr size_t kOutputColumns = 14;
  if (!v.outputs.empty())
    page.line("%-4s %s %9s %9s %9s %9s %9s %9s %10s", "seed", in_columns("output", kOutputColumns).c_str(), "l0", "l1",
              "l2", "lInf", "of range", "of change", "cosine");
  for (const judge::OutputVerdict& o : v.outputs) {
    const judge::Difference& d = o.difference;
    page.line("%-4s %s %9.3g %9.3g %9.3g %9.3g %9.3g %9s %10.7f%s", given ? "-" : std::to_string(o.seed).c_str(),
              in_columns(o.output, kOutputColumns).c_str(), d.l0, d.l1, d.l2, d.linf, d.relative,
              o.of_change ? format("%.3g", *o.of_change).c_str() : "-", d.cosine,
              !o.inside      ? "  OUTSIDE"
              : d.count == 0 ? "  empty: no value"
                             : "");
  }
  if (!v.bisected.empty()) page.line("%s", v.bisected.c_str());
}

// Suggests comparing with files if the reference is too expensive.
Error with_files(Error e) {
  constexpr std::string_view kPeer = "compare with --onnxruntime";
  if (e.kind == ErrorKind::kRefused && e.remedy.ends_with(kPeer)) e.remedy += " or --reference-dir";
  return e;
}

Result<DimBinding> sizes_of_texts(const Arguments& arguments, const plan::Program& program) {
  PERI_ASSIGN(const std::vector<Tensor> inputs, read_texts(arguments, program));
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : inputs) dims.push_back(t.dims());
  return plan::bind_dims(program, dims);
}

Result<Outcome> verify_model(const Arguments& arguments, const std::string& path) {
  PERI_TRY(check_texts(arguments));
  PERI_ASSIGN(judge::VerifyTerms terms, terms_of(arguments, path));
  if (build::is_engine(path)) PERI_TRY(check_engine_flags(arguments, kRunFlags));
  Progress progress(arguments.has("--quiet"));
  // Of a folder its ONNX file, in which its pooling is not.
  const bool by_file = !terms.peer_model.empty() && hf::is_folder(path) && !arguments.has("--model");
  PERI_ASSIGN(const build::Request request, build_request(arguments, by_file ? terms.peer_model : path, &progress));
  const bool against_reference = !terms.steps_only && terms.reference_dir.empty() && terms.peer_model.empty();
  // Answers that part from ONNX Runtime's at roundings are followed in the reference.
  auto subject = build::open_subject(request, terms.bisect || terms.reference_dir.empty(), against_reference);
  progress.clear();
  if (!subject.ok()) return with_files(std::move(subject).error());
  const plan::Program& program = subject->engine->program();
  for (const std::string& note : subject->notes) say("note: " + note);
  if (const std::string slow = build::slow_steps_text(program); !slow.empty()) say("note: " + slow);
  if (build::is_engine(path)) note_no_loop(arguments, program);
  const bool texts = arguments.has("--text");
  terms.given = texts || (arguments.has("--input") && arguments.all("--input").size() == program.inputs.size());
  if (arguments.has("--seed") && terms.given)
    return usage("--seed is for random inputs: all are given").advise("leave it out");
  terms.progress = request.progress;
  terms.inputs = [&](uint64_t seed) {
    return texts ? read_texts(arguments, program)
                 : read_inputs(arguments, program,
                               terms.reference_dir.empty() ? std::optional<uint64_t>(seed * 1000) : std::nullopt);
  };
  if (texts) {
    PERI_ASSIGN(terms.sizes, sizes_of_texts(arguments, program));
  } else if (!arguments.has("--input")) {
    PERI_ASSIGN(terms.sizes, program_dims(arguments, program));
  }
  const auto made = terms.inputs;
  auto verified = with_made_up<judge::Verification>(arguments, has_integers(program), [&](std::optional<int64_t> all) {
    terms.inputs = [&made, all](uint64_t seed) -> Result<std::vector<Tensor>> {
      PERI_ASSIGN(std::vector<Tensor> inputs, made(seed));
      return with_integers(all, std::move(inputs));
    };
    return judge::verify(*subject, terms);
  });
  progress.clear();
  if (!verified.ok()) return with_files(std::move(verified).error());
  const judge::Verification& v = *verified;
  print(Page(arguments), v, terms.given);
  Outcome out;
  out.summary = v.text();
  out.json = judge::verification_json(v);
  out.code = v.passed ? 0 : exit_code(ErrorKind::kAccuracy);
  return out;
}

// The result of `peri verify --suite DIR`. Exit code 3 if a case fails or fewer pass than --min-passed.
Result<judge::SuiteMemory> memory_of(const Arguments& arguments) {
  const std::string how = arguments.get("--memory", "planned");
  if (how == "planned") return judge::SuiteMemory::kPlanned;
  if (how == "poisoned") return judge::SuiteMemory::kPoisoned;
  if (how == "separate") return judge::SuiteMemory::kSeparate;
  return usage("--memory has an invalid value").expecting("planned, poisoned or separate").but_found(how);
}

// Number of cases by operator.
struct OperatorCount {
  int64_t cases = 0, passed = 0, away = 0;
};

void write_operators(const std::map<std::string, OperatorCount>& operators, JsonWriter* w) {
  w->key("operators").begin_object();
  for (const auto& [name, of] : operators)
    w->key(name)
        .begin_object()
        .field("cases", of.cases)
        .field("passed", of.passed)
        .field("passed_wholly_on_device", of.away)
        .end_object();
  w->end_object();
}

void write_counts(std::string_view key, const std::map<std::string, int64_t>& counts, JsonWriter* w) {
  w->key(key).begin_object();
  for (const auto& [name, count] : counts) w->field(name, count);
  w->end_object();
}

// What the runs were, so that a reader can tell whether flags and variables had an effect.
void write_runs(const std::vector<judge::CaseResult>& cases, JsonWriter* w) {
  judge::CaseResult all;
  for (const judge::CaseResult& c : cases) {
    for (const auto& [name, count] : c.executors) all.executors[name] += count;
    for (const auto& [name, count] : c.providers) all.providers[name] += count;
    all.steps += c.steps;
    all.threads = std::max(all.threads, c.threads);
    all.arena_bytes += c.arena_bytes;
    all.poisoned_bytes += c.poisoned_bytes;
  }
  w->key("runs").begin_object().field("steps", all.steps).field("threads", static_cast<int64_t>(all.threads));
  w->field("arena_bytes", all.arena_bytes).field("poisoned_bytes", all.poisoned_bytes);
  w->field("packed_cache_bytes", static_cast<int64_t>(kept_limit_bytes(kPackedWeights)));
  write_counts("executors", all.executors, w);
  write_counts("providers", all.providers, w);
  w->end_object();
}

void write_not_passed(const std::vector<judge::CaseResult>& cases, JsonWriter* w) {
  w->key("not_passed").begin_array();
  for (const judge::CaseResult& r : cases)
    if (r.verdict != judge::Verdict::kPassed)
      w->begin_object()
          .field("case", r.name)
          .field("verdict", r.verdict == judge::Verdict::kFailed ? "failed" : "unsupported")
          .field("why", r.why)
          .end_object();
  w->end_array();
}

Result<Outcome> verify_suite(const Arguments& arguments, const std::string& dir) {
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(build::Request request, build_request(arguments, "", nullptr));
  PERI_TRY(build::check_request(request));
  PERI_ASSIGN(const int64_t least, arguments.number("--min-passed", 0, 1000000000, 0));
  if (!request.device.empty()) {
    PERI_ASSIGN(const lower::Backend* const backend, compile::backend_for(request.backend, request.device));
    request.backend = backend->name;
  }
  judge::SuiteTerms terms;
  terms.build = build::suite_builder(request);
  terms.filter = arguments.get("--filter");
  terms.stop = interrupted;
  PERI_ASSIGN(terms.memory, memory_of(arguments));
  const Page page(arguments);
  PERI_ASSIGN(const int64_t at_once,
              arguments.number("--at-once", 1, 4096, build::shares_device(request) ? usable_cpus() : 1));
  terms.at_once = static_cast<int>(at_once);
  int64_t count[3] = {}, seen = 0, reference = 0, away = 0;
  std::map<std::string, OperatorCount> operators;
  terms.each = [&](const judge::CaseResult& r) {
    static constexpr const char* kNames[] = {"passed", "FAILED", "unsupported"};
    ++count[static_cast<int>(r.verdict)];
    reference += r.steps > 0 && r.reference_steps == r.steps;
    const bool passed = r.verdict == judge::Verdict::kPassed;
    away += passed && r.wholly_away();
    for (const std::string& name : r.operators) {
      OperatorCount& of = operators[name];
      ++of.cases;
      of.passed += passed;
      of.away += passed && r.wholly_away();
    }
    progress.show(0, 0, counted(++seen, "case") + ", " + r.name);
    if (r.verdict == judge::Verdict::kPassed) return;
    progress.clear();
    page.line("%-11s %s: %s", kNames[static_cast<int>(r.verdict)], r.name.c_str(), r.why.c_str());
  };
  PERI_ASSIGN(const std::vector<judge::CaseResult> cases, judge::run_suite(dir, terms));
  progress.clear();
  page.line("%s: %lld passed, %lld failed, %lld unsupported; %lld of them wholly on the reference executor%s",
            counted(std::ssize(cases), "case").c_str(), static_cast<long long>(count[0]),
            static_cast<long long>(count[1]), static_cast<long long>(count[2]), static_cast<long long>(reference),
            away ? format("; %lld passed wholly on the device", static_cast<long long>(away)).c_str() : "");
  Outcome out;
  JsonWriter w;
  w.begin_object()
      .field("suite", dir)
      .field("cases", static_cast<int64_t>(cases.size()))
      .field("passed", count[0])
      .field("failed", count[1])
      .field("unsupported", count[2])
      .field("wholly_reference", reference)
      .field("passed_wholly_on_device", away);
  write_operators(operators, &w);
  write_runs(cases, &w);
  write_not_passed(cases, &w);
  w.end_object();
  out.json = w.take();
  out.code = count[1] || count[0] < least ? 3 : 0;
  out.summary = counted(std::ssize(cases), "case") + ": " + std::to_string(count[0]) + " passed, " +
                std::to_string(count[1]) + " failed, " + std::to_string(count[2]) + " unsupported";
  if (count[0] < least) out.summary += "; --min-passed wants " + std::to_string(least);
  return out;
}

Result<Outcome> run(const Arguments& arguments) {
  if (arguments.has("--suite")) {
    if (!arguments.positional.empty())
      return usage("--suite takes no model").but_found(arguments.positional[0]).advise("leave it out, or --suite");
    for (const char* flag : {"--budget", "--settings", "--retune"})
      if (arguments.has(flag))
        return usage("%s is for tuning, and the cases of a suite are not tuned", flag).advise("leave it out");
    for (const char* flag :
         {"--input",      "--text",       "--prompt",     "--prompt-name", "--cast",          "--onnxruntime",
          "--model",      "--bisect",     "--steps-only", "--seed",        "--reference-dir", "--max-error",
          "--min-cosine", "--max-change", "--rtol",       "--atol",        "--nan-equal",     "--dims",
          "--shapes",     "--opt-shapes", "--min-shapes", "--max-shapes",  "--fix",           "--io-dtype"})
      if (arguments.has(flag))
        return usage("%s is for a model: the cases of a suite have inputs, answers and bounds of their own",
                     arguments.spelled(flag).c_str())
            .advise("leave it out");
    return verify_suite(arguments, arguments.get("--suite"));
  }
  for (const char* flag : {"--memory", "--filter", "--min-passed", "--at-once"})
    if (arguments.has(flag)) return usage("%s is for --suite", flag);
  if (!arguments.positional.empty()) return verify_model(arguments, arguments.positional[0]);
  return usage("peri verify needs MODEL, ENGINE or --suite DIR").advise("see: peri verify --help");
}
}  // namespace

extern const Entry verify_entry;
const Entry verify_entry{{
    .name = "verify",
    .summary = "compare results with the float64 reference, files or ONNX Runtime, or run a test suite",
    .positional = "[MODEL|ENGINE]",
    .min_positional = 0,
    .max_positional = 1,
    .flags = build_flags(with_texts(
        {{"--input", "-i", "NAME=FILE", "an input: .npy, .npz, .pb, .png, .jpg, raw:TYPE:AxBxC:FILE, or random:SEED",
          true},
         {"--onnxruntime", "", "",
          "compare with ONNX Runtime of the Python that PERI_PYTHON names (else the project's, else python3); of a "
          "folder, its "
          "ONNX file"},
         {"--bisect", "", "", "check every step of a run on its actual inputs and name the first outside its bound"},
         {"--steps-only", "", "",
          "--bisect without the outputs: no float64 run of the whole model, for sizes at which that would take hours"},
         {"--seed", "", "N", "seed of the random inputs (default 1 and 2)", true},
         {"--cast", "", "",
          "convert inputs of another element type; floats are rounded, a value that does not fit is an error"},
         {"--reference-dir", "", "DIR", "compare with DIR/NAME.npy of each output instead of the reference"},
         {"--model", "", "MODEL.onnx", "with --onnxruntime and an ENGINE: the model it was made of"},
         {"--max-error", "", "X", "largest error, relative to the output's range (default 1e-4)"},
         {"--min-cosine", "", "X",
          "smallest cosine similarity after subtracting the means (default: none; 0.9999 with --onnxruntime)"},
         {"--max-change", "", "X",
          "largest error, relative to the change between the results of two seeds (default: none; 1e-3 with "
          "--onnxruntime)"},
         {"--rtol", "", "X", "l0 counts elements outside atol + rtol * |wanted| (default 1e-3)"},
         {"--atol", "", "X", "see --rtol (default 1e-5)"},
         {"--nan-equal", "", "", "treat NaN against NaN as agreement (default: it fails)"},
         {"--suite", "", "DIR", "run DIR/*/model.onnx on its test_data_set_* in this process"},
         {"--min-passed", "", "N", "with --suite: exit code 3 too when fewer cases pass"},
         {"--at-once", "", "N", "with --suite: cases at once (default 1; on a GPU the CPUs)"},
         {"--filter", "", "TEXT", "run only cases whose name contains TEXT"},
         {"--memory", "", "planned|poisoned|separate",
          "with --suite: planned (default), poisoned (NaN before each run), or separate (poisoned and guarded)"}})),
    .details = "Exit code 3 when an answer is outside its budget.\n\nexample:\n  peri verify models/digits_cnn.onnx "
               "--dims batch=3 --seed 7 --bisect\n  peri verify models/digits_cnn.onnx --onnxruntime --dims batch=3\n  "
               "peri verify --suite build/suites/node --filter conv",
    .run = run,
}};

}  // namespace peri::cli
