// peri build: a model becomes an engine file, with its proof beside it.
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/core/model.hpp"
#include "cli/core/proof.hpp"
#include "plan/engine_file.hpp"
#include "plan/lock_file.hpp"

namespace peri::cli {
namespace {

std::string describe(const compile::Compiled& c, const std::string& path, bool stopped) {
  JsonWriter w;
  w.begin_object().field("engine", path).field("model", c.program.name);
  w.field("steps", static_cast<int64_t>(c.program.steps.size()))
      .field("weights", static_cast<int64_t>(c.program.weights.size()));
  w.field("predicted_ms", c.predicted_ms).field("conversion_ms", c.conversion_ms);
  w.field("import_seconds", c.import_seconds)
      .field("passes_seconds", c.passes_seconds)
      .field("tune_seconds", c.tune_seconds);
  int64_t reference = 0;
  for (const auto& s : c.steps) reference += s.chosen == "reference";
  w.field("interrupted", stopped).field("reference_steps", reference).key("steps_in_order").begin_array();
  for (const auto& s : c.steps) write_step(w, s);
  w.end_array().end_object();
  return w.take();
}

// Before the work: whether what comes of it can be written.
Status check_folder_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : file.substr(0, slash);
  if (!file.empty() && access(folder.c_str(), W_OK) != 0) return os_error("write into the folder", folder);
  return Ok{};
}

// What is known of the engine as a whole, in a few words.
std::string judged_text(const build::Built& built) {
  int64_t sizes = 0, steps = 0;
  for (const judge::SizeEvidence& e : built.verdict.sizes)
    if (e.limit.empty()) ++sizes, steps += e.steps_judged;
  if (sizes == 0) return "the engine was not run";
  std::string text = format("right at %lld size%s, %lld steps judged", static_cast<long long>(sizes),
                            sizes == 1 ? "" : "s", static_cast<long long>(steps));
  if (!built.refused.empty()) text += format(", %zu choices refused by it", built.refused.size());
  return text;
}

// What a plan for a device leaves on the host, with what its kernels say: "3 steps on the host: 'pad' (...)".
std::string host_text(const compile::Compiled& c) {
  if (c.program.devices.size() == 1) return "";
  int64_t count = 0;
  std::string first;
  for (size_t k = 0; k < c.steps.size(); ++k) {
    if (c.program.steps[k].device != plan::kHost || c.steps[k].conversion) continue;
    if (count++ > 0) continue;
    first = "'" + c.steps[k].name + "'";
    for (const auto& [kernel, reason] : c.steps[k].refusals)
      if (kernel.starts_with(c.program.devices.back())) first += " " + kernel + ": " + reason + ";";
  }
  if (count == 0) return "; all steps on the device";
  return format("; %lld step%s on the host, the first ", static_cast<long long>(count), count == 1 ? "" : "s") + first;
}

Result<Outcome> run(const Arguments& arguments) {
  const std::string model = arguments.positional[0], path = arguments.get("--output");
  if (path.empty()) return usage("peri build needs -o ENGINE");
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(compile::Options options, build_options(arguments, model, &progress));
  if (const std::string file = arguments.get("--locked"); !file.empty()) {
    if (arguments.has("--lock")) return usage("--lock writes choices and --locked takes them: give one of the two");
    PERI_ASSIGN(options.lock, plan::read_lock(file));
  }
  for (const std::string& file : {path, arguments.get("--lock")}) PERI_TRY(check_folder_of(file));
  PERI_ASSIGN(build::Built built, build_whole(options, &progress));
  compile::Compiled* compiled = &built.compiled;
  const bool stopped = interrupted();
  int64_t unproven = 0;
  if (stopped) {
    for (const auto& s : compiled->steps) unproven += s.chosen != "reference" && s.evidence.max_error < 0;
    compiled->notes.push_back(format("interrupted: the best so far, %lld of %zu steps neither verified nor measured",
                                     static_cast<long long>(unproven), compiled->steps.size()));
  }
  const std::string proof =
      proof_json(built, options) + "\n";  // before the engine: it stands without one for no longer
  PERI_TRY(plan::write_engine(path, compiled->program, compiled->weights));
  if (const std::string file = arguments.get("--lock"); !file.empty())
    PERI_TRY(write_file_atomic(file, plan::lock_text(compiled->lock)));
  PERI_TRY(write_file_atomic(proof_path(path), proof));
  Outcome out;
  int64_t reference = 0;
  for (const auto& s : compiled->steps) reference += s.chosen == "reference";
  out.summary = path + ", " + std::to_string(compiled->program.steps.size()) + " steps" +
                (reference ? ", " + std::to_string(reference) + " of them on the slow reference" : "") +
                format(", %.1f s", compiled->import_seconds + compiled->passes_seconds + compiled->tune_seconds +
                                       built.verdict.seconds) +
                "; " + judged_text(built) + host_text(*compiled) + (stopped ? "; " + compiled->notes.back() : "");
  out.json = describe(*compiled, path, stopped);
  return out;
}
}  // namespace

extern const Entry build_entry;
const Entry build_entry{{
    .name = "build",
    .summary = "turn a model (ONNX file or Hugging Face folder) into an engine",
    .positional = "MODEL",
    .min_positional = 1,
    .max_positional = 1,
    .flags =
        build_flags({{"--output", "-o", "ENGINE", "the engine file to write"},
                     {"--lock", "", "FILE", "write every choice to this lock file"},
                     {"--locked", "", "FILE", "take every choice from this lock file: no measuring, the same bytes"}}),
    .details = "example:\n  peri build models/digits_cnn.onnx -o build/digits_cnn.engine --dims batch=1",
    .run = run,
}};

}  // namespace peri::cli
