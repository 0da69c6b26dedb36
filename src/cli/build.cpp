// peri build: compiles a model to an engine file and writes its proof beside it.
#include <filesystem>

#include "base/json.hpp"
#include "base/plural.hpp"
#include "build/on_reference.hpp"
#include "build/proof.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/built.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "plan/memory.hpp"

namespace peri::cli {

extern const Entry build_entry;

namespace {

std::string describe(const Page& page, const build::Made& made, const std::string& path) {
  const compile::Compiled& c = made.built.compiled;
  JsonWriter w;
  w.begin_object().field("engine", path).field("model", c.program.name);
  w.field("steps", static_cast<int64_t>(c.program.steps.size()))
      .field("steps_in_bodies", build::body_steps(c))
      .field("weights", static_cast<int64_t>(c.program.weights.size()));
  if (c.predicted_ms > 0)
    w.field("predicted_ms", c.predicted_ms);
  else
    w.key("predicted_ms").null();  // no step was measured
  w.field("conversion_ms", c.conversion_ms);
  w.field("import_seconds", c.import_seconds)
      .field("passes_seconds", c.passes_seconds)
      .field("tune_seconds", c.tune_seconds);
  w.field("reference_steps", made.reference_steps());
  w.field("slow_steps", static_cast<int64_t>(build::on_reference(c).slow.size()));
  show_build(page, w, made, path);
  build::write_on_host(w, c);
  w.key("steps_in_order").begin_array();
  const build::Grounds grounds = build::grounds_of(made.built);
  for (const auto& s : c.steps) build::write_step(w, s, grounds);
  w.end_array().end_object();
  return w.take();
}

// Steps of a device's plan that run on the host: "; 3 steps on the host".
std::string host_text(const compile::Compiled& c) {
  if (c.program.devices.size() == 1 && c.on_host.empty()) return "";
  std::string memory;
  for (const std::string& line :
       plan::memory_lines(c.program, {c.program.tuned_for.begin(), c.program.tuned_for.end()}, build::workspaces(c)))
    memory += "; " + line;
  if (c.on_host.empty()) return "; all steps on the device" + memory;
  return memory + format("; %zu step%s on the host, the first '%s'", c.on_host.size(), c.on_host.size() == 1 ? "" : "s",
                         c.on_host[0].name.c_str());
}

// The model's file name in the current folder with another suffix: "models/digits.onnx" gives "digits.engine".
std::string engine_beside(const std::string& model) {
  std::filesystem::path of = std::filesystem::path(model).lexically_normal();
  if (!of.has_filename()) of = of.parent_path();
  if (of.filename() == "." || of.filename() == "..") return "model.engine";
  return (of.extension() == ".onnx" ? of.stem() : of.filename()).string() + ".engine";
}

Result<Outcome> run(const Arguments& arguments) {
  const std::string path = arguments.get("--output", engine_beside(arguments.positional[0]));
  Arguments with_output = arguments;
  with_output.values["--output"] = {path};
  PERI_TRY(file_uses(build_entry.command, with_output).check(arguments.has("--force")));
  if (arguments.has("--lock") && arguments.has("--locked"))
    return usage("--lock writes a lock file and --locked reads one: give one of the two");
  for (const char* flag : {"--budget", "--settings", "--retune"})
    if (arguments.has("--locked") && arguments.has(flag))
      return usage("%s is for tuning, and --locked takes every choice from the lock file", flag)
          .advise("leave one of them out");
  if (arguments.has("--locked") && arguments.has("--no-tune"))
    say("note: --no-tune changes nothing: --locked takes every choice from the lock file, and measures nothing");
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(build::Request request, build_request(arguments, arguments.positional[0], &progress));
  request.engine_path = path;
  request.lock_path = arguments.get("--lock");
  request.force = arguments.has("--force");
  request.locked_path = arguments.get("--locked");
  PERI_ASSIGN(const build::Made made, build::make_engine(request));
  progress.clear();
  const compile::Compiled& compiled = made.built.compiled;
  const int64_t slow = std::ssize(build::on_reference(compiled).slow), in_bodies = build::body_steps(compiled);
  const Page page(arguments);
  for (const std::string& note : compiled.notes)
    if (!made.stopped || note != compiled.notes.back()) say("note: " + note);
  if (slow > 0 && arguments.has("--quiet"))  // else the page names them, with the reason
    if (const std::string steps = build::slow_steps_text(compiled.program); !steps.empty()) say("note: " + steps);
  Outcome out;
  out.summary = path + ", " + build::steps_text(std::ssize(compiled.program.steps), in_bodies) +
                (slow ? ", " + std::to_string(slow) + " of them on the slow reference" : "") +
                (slow && made.short_of_memory() ? std::string(", since memory was short") : "") +
                format(", %.1f s", made.built.seconds) + "; " + made.verdict() + host_text(compiled) +
                (compiled.tuned.untried > 0 && !made.stopped
                     ? "; --budget was over before " + counted(compiled.tuned.untried, "problem") + " could be tried"
                     : "") +
                (made.stopped ? "; " + compiled.notes.back() : "");
  out.json = describe(Page(arguments), made, path);
  return out;
}
}  // namespace

const Entry build_entry{{
    .name = "build",
    .summary = "turn a model (ONNX file or Hugging Face folder) into an engine",
    .positional = "MODEL",
    .min_positional = 1,
    .max_positional = 1,
    .flags = build_flags(
        {{"--output", "-o", "ENGINE", "the engine file to write (default: the model's name with .engine, here)", false,
          &plan::kEngineFile, "--save-engine"}},
        {{"--lock", "", "FILE", "write every choice to this lock file", false, &plan::kLockFile},
         {"--locked", "", "FILE", "take every choice from this lock file: no measuring, the same bytes"}}),
    .details = "example:\n  peri build models/digits_cnn.onnx -o build/digits_cnn.engine --dims batch=1",
    .run = run,
    .stops = true,
}};

}  // namespace peri::cli
