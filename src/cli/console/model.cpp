// Builds or loads an engine according to the command line.
#include "cli/console/model.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/thread_pool.hpp"
#include "build/on_reference.hpp"
#include "cli/console/named.hpp"
#include "onnx/import.hpp"
#include "plan/iterations.hpp"

namespace peri::cli {

std::vector<Flag> build_flags(std::vector<Flag> first, const std::vector<Flag>& last) {
  std::vector<Flag> flags = std::move(first);
  const Flag ours[] = {
      {"--dims", "", "NAME=N,...", "values of named dimensions: a name, INPUT.AXIS, batch or sequence", true},
      {"--shapes", "", "NAME:AxBxC", "the shape of an input, e.g. image:8x3x224x224", true},
      {"--dtype", "", "f32|f16|bf16", "type of weights, on a GPU also of activations (default: the model's)"},
      {"--threads", "", "N", "threads (default: the CPUs this process may use)"},
      {"--backend", "", "auto|cpu|cuda", "where the engine runs (auto: cpu)"},
      {"--device", "", "KIND:N", "select one of several devices, e.g. cuda:1 (default: the first)"},
      {"--budget", "", "SECONDS",
       "stop tuning after this time and use the best found so far (default: try everything)"},
      {"--no-tune", "", "",
       "do not measure: use each kernel's first offer; on a GPU the candidate with the best estimate that verifies"},
      {"--retune", "", "",
       "verify and time every candidate and verify the engine again, replacing what the timing cache has"},
      {"--no-verify", "", "", "do not check candidates against the reference (the proof says so)"},
      {"--no-cache", "", "", "neither read nor write the timing cache (see peri cache)"},
      {"--opt-shapes", "", "NAME:AxBxC", "as --shapes: the shape to tune for", true},
      {"--min-shapes", "", "NAME:AxBxC", "the smallest shape that the engine takes, checked too", true},
      {"--max-shapes", "", "NAME:AxBxC", "the largest shape that the engine takes, checked too", true},
      {"--fix", "", "NAME=VALUE", "replace an input by a constant, e.g. sr=16000, and fold what depends on it", true},
      {"--max-iterations", "", "N",
       "a loop with more iterations is an error; a build keeps N in the engine (default: the engine's, else "
       "2147483648)"},
      {"--strict-placement", "", "", "refuse a model if the host would have to run some of its steps"},
      {"--io-dtype", "", "f32|f16|bf16", "type of inputs and outputs (default: the model's)"},
      {"--kernel", "", "FILE", "manifest of an external kernel to try beside the built-in ones (GPU)", true},
      {"--provider", "", "peri|onednn|cublaslt|cudnn|outside|reference", "use only candidates of this provider"},
      {"--settings", "", "N", "number of settings of a kernel's tunables to try beside its default (default: 0)"},
      {"--disable-pass", "", "NAME", "skip a pass", true},
      {"--dump-passes", "", "DIR", "write the graph before and after each pass that changed it", false, nullptr, "",
       true},
  };
  flags.insert(flags.end(), std::begin(ours), std::end(ours));
  flags.insert(flags.end(), last.begin(), last.end());
  return flags;
}

Result<int> thread_count(const Arguments& arguments) {
  PERI_ASSIGN(const int64_t n, arguments.number("--threads", 1, 1024, usable_cpus()));
  return static_cast<int>(n);
}

Result<int64_t> iteration_limit(const Arguments& arguments) {
  return arguments.number("--max-iterations", 1, plan::kMaxIterations, 0);
}

namespace {
using Sizes = std::map<std::string, int64_t>;

// Parses a size: an integer of at least `least`.
Result<int64_t> size_of(std::string_view flag, std::string_view text, const std::string& item, int64_t least) {
  int64_t v = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code == std::errc() && end == text.data() + text.size() && v >= least) return v;
  return usage("%s has no size there", std::string(flag).c_str())
      .expecting(format("whole numbers from %lld to %lld", static_cast<long long>(least),
                        static_cast<long long>(std::numeric_limits<int64_t>::max())))
      .but_found(item);
}

Status add(std::string_view flag, const std::string& name, int64_t value, Sizes* out) {
  if (out->emplace(name, value).second) return Ok{};
  return usage("%s gives '%s' a size, and it has one", std::string(flag).c_str(), name.c_str())
      .advise("give each dimension once");
}

Status add_dim(const std::string& item, Sizes* out) {
  const size_t eq = item.rfind('=');
  if (eq == std::string::npos || eq == 0) return usage("--dims is not NAME=N").but_found(item);
  PERI_ASSIGN(const int64_t v, size_of("--dims", std::string_view(item).substr(eq + 1), item, 0));
  return add("--dims", item.substr(0, eq), v, out);
}

Status add_shape(std::string_view flag, const std::string& item, Sizes* out) {
  const size_t colon = item.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return usage("%s is not NAME:AxBxC", std::string(flag).c_str()).but_found(item);
  const std::string axis = item.substr(0, colon) + ".";
  int axes = 0;
  for (size_t at = colon + 1; at <= item.size(); ++axes) {
    const size_t end = std::min(item.find('x', at), item.size());
    PERI_ASSIGN(const int64_t v, size_of(flag, std::string_view(item).substr(at, end - at), item, 0));
    PERI_TRY(add(flag, axis + std::to_string(axes), v, out));
    at = end + 1;
  }
  return add(flag, axis + std::to_string(axes), compile::kShapeEnds, out);
}

// Calls `take` for each item of a list, as "a:2x3,b:4" has two. A name may contain a comma, `ends` and anything else:
// an item ends at a comma before which stands `ends` and then a size of `digits`.
Status each_item(const std::string& list, char ends, const char* digits,
                 const std::function<Status(const std::string&)>& take) {
  size_t from = 0;
  for (size_t comma = list.find(','); comma != std::string::npos; comma = list.find(',', comma + 1)) {
    const std::string one = list.substr(from, comma - from);
    const size_t at = one.rfind(ends);
    if (at == std::string::npos || one.find_first_not_of(digits, at + 1) != std::string::npos) continue;
    PERI_TRY(take(one));
    from = comma + 1;
  }
  return take(list.substr(from));
}

Status add_dims(const std::string& list, Sizes* out) {
  return each_item(list, '=', "0123456789", [&](const std::string& item) { return add_dim(item, out); });
}
Status add_shapes(std::string_view flag, const std::string& list, Sizes* out) {
  return each_item(list, ':', "0123456789x", [&](const std::string& item) { return add_shape(flag, item, out); });
}

Result<Sizes> given_shapes(const Arguments& arguments, std::string_view flag) {
  Sizes out;
  for (const std::string& item : arguments.all(flag)) PERI_TRY(add_shapes(flag, item, &out));
  return out;
}

// A value may contain "=" too, as that of a string does: where a word can be read in several ways, the model's inputs
// decide.
Result<std::map<std::string, std::string>> given_values(const Arguments& arguments, const std::string& model) {
  std::map<std::string, std::string> out;
  for (const std::string& word : arguments.all("--fix")) {
    const std::vector<Named> all = readings(word);
    if (all.empty()) return usage("--fix is not NAME=VALUE").but_found(word);
    std::vector<std::string_view> names;
    Result<onnx::ImportReport> known = onnx::ImportReport{};
    if (all.size() > 1) known = onnx::survey_model(model);
    if (known.ok())  // the build says what is wrong with the model
      for (const onnx::PortInfo& p : known->inputs) names.push_back(p.name);
    const auto& [name, value] = reading_of(all, names);
    if (value.empty()) return usage("--fix is not NAME=VALUE").but_found(word);
    if (!out.emplace(name, value).second) return usage("--fix gives input '%s' two values", name.c_str());
  }
  return out;
}

Result<Sizes> given_dims(const Arguments& arguments) {
  Sizes out;
  for (const std::string& list : arguments.all("--dims")) PERI_TRY(add_dims(list, &out));
  for (const char* flag : {"--shapes", "--opt-shapes"})
    for (const std::string& item : arguments.all(flag)) PERI_TRY(add_shapes(flag, item, &out));
  return out;
}
}  // namespace

Status check_engine_flags(const Arguments& arguments, std::span<const std::string_view> obeyed) {
  for (const Flag& f : build_flags())
    if (arguments.has(f.name) && std::find(obeyed.begin(), obeyed.end(), f.name) == obeyed.end())
      return usage("%s is for models: an engine stays as it was built", std::string(f.name).c_str())
          .in_file(arguments.positional[0])
          .advise("leave it out, or build the engine again with it");
  return Ok{};
}

Status check_sizes_used(const Arguments& arguments, bool used) {
  if (used || arguments.positional.empty() || !build::is_engine(arguments.positional[0])) return Ok{};
  for (const char* flag : {"--dims", "--shapes", "--opt-shapes"})
    if (arguments.has(flag))
      return usage("%s is for random inputs: those given have their own sizes", flag).advise("leave it out");
  return Ok{};
}

void note_no_loop(const Arguments& arguments, const plan::Program& program) {
  const auto limit = iteration_limit(arguments);
  if (!limit.ok()) return;
  if (const std::string none = build::unused_limit(*limit, program); !none.empty()) say("note: " + none);
}

Result<build::Request> build_request(const Arguments& arguments, const std::string& model, Progress* progress) {
  build::Request r;
  r.model = model;
  r.backend = arguments.get("--backend", "auto");
  r.device = arguments.get("--device");
  r.strict_placement = arguments.has("--strict-placement");
  r.dtype = arguments.get("--dtype");
  r.io_dtype = arguments.get("--io-dtype");
  PERI_ASSIGN(r.dims, given_dims(arguments));
  PERI_TRY(check_input_words(arguments));
  if (!build::is_engine(model)) r.at_hand = input_shapes(arguments);
  if (arguments.has("--input")) r.admits = [&](const ir::Graph& g) { return check_inputs(arguments, g, false); };
  PERI_ASSIGN(r.min_dims, given_shapes(arguments, "--min-shapes"));
  PERI_ASSIGN(r.max_dims, given_shapes(arguments, "--max-shapes"));
  PERI_ASSIGN(r.fixed, given_values(arguments, model));
  PERI_ASSIGN(r.max_iterations, iteration_limit(arguments));
  r.disabled_passes = arguments.all("--disable-pass");
  r.dump_dir = arguments.get("--dump-passes");
  if (!r.dump_dir.empty()) PERI_TRY(build::check_folder_of(r.dump_dir + "/."));
  PERI_ASSIGN(r.threads, thread_count(arguments));
  r.provider = arguments.get("--provider");
  PERI_ASSIGN(r.budget, arguments.real("--budget", 1e-3, 1e6, 0));
  PERI_ASSIGN(const int64_t settings, arguments.number("--settings", 0, 64, 0));
  r.settings = static_cast<int>(settings);
  r.tune = !arguments.has("--no-tune");
  r.verify = !arguments.has("--no-verify");
  r.cache = !arguments.has("--no-cache");
  r.retune = arguments.has("--retune");
  if (r.retune && !(r.cache && r.tune)) return usage("--retune goes with neither --no-tune nor --no-cache");
  if (!r.tune && r.budget > 0)
    return usage("--budget bounds the tuning, and --no-tune leaves it out").advise("leave one of them out");
  if (!r.tune && r.settings > 0)
    return usage("--settings is for tuning, and --no-tune leaves it out").advise("leave one of them out");
  r.stop = interrupted;
  r.log = [](const std::string& line) { log_line(line); };
  if (progress)
    r.progress = [progress](size_t done, size_t total, const std::string& what) { progress->show(done, total, what); };
  return r;
}

Status check_is_for_engines(const Arguments& arguments, const std::string& path) {
  if (!arguments.has("--check")) return Ok{};
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return os_error("open", path);
  return usage("--check is for engines").in_file(path);
}

Result<Opened> open_model(const Arguments& arguments, const std::string& path, Progress* progress, bool all_inputs) {
  Opened out;
  PERI_ASSIGN(const int threads, thread_count(arguments));
  PERI_TRY(check_input_words(arguments));
  const int64_t start = now_ns();
  if (build::is_engine(path)) {
    PERI_TRY(check_engine_flags(arguments, kRunFlags));
    runtime::EngineOptions options = build::run_options(threads, {}, arguments.get("--device"));
    PERI_ASSIGN(options.max_iterations, iteration_limit(arguments));
    PERI_ASSIGN(out.engine, build::load(path, std::move(options), arguments.has("--check"), &out.file));
    if (const std::string mark = build::interrupted_build(out.engine->program()); !mark.empty()) say("note: " + mark);
    const plan::Program& program = out.engine->program();
    if (const std::string mark = build::tuned_elsewhere(program, build::chip_here(program, arguments.get("--device")));
        !mark.empty())
      say("note: " + mark);
    note_no_loop(arguments, program);
  } else {
    PERI_TRY(check_is_for_engines(arguments, path));
    PERI_ASSIGN(build::Request request, build_request(arguments, path, progress));
    if (all_inputs) request.admits = [&](const ir::Graph& g) { return check_inputs(arguments, g, true); };
    auto made = build::make_whole_engine(request);
    if (progress) progress->clear();
    if (!made.ok()) return std::move(made).error();
    out.compiled = std::move(made->built.compiled);
    for (const std::string& note : out.compiled->notes) say("note: " + note);
    runtime::EngineOptions options = build::run_options_of(out.compiled->program, threads, request.device);
    options.max_iterations = request.max_iterations;
    PERI_ASSIGN(out.engine, build::assemble(&*out.compiled, std::move(options)));
  }
  out.load_ms = seconds_since(start) * 1e3;
  const bool quick = out.compiled && build::on_reference(*out.compiled).slow.empty();
  if (const std::string slow = build::slow_steps_text(out.engine->program()); !quick && !slow.empty())
    say("note: " + slow);
  return out;
}

namespace {
// The first axis of an input that has this dimension, as --dims takes it: "x.0"; "" for none.
std::string axis_of(const plan::Program& program, const std::string& dimension) {
  for (const plan::Port& p : program.inputs)
    for (size_t axis = 0; axis < p.shape.size(); ++axis)
      if (p.shape[axis].is_symbol() && p.shape[axis].symbol_name() == dimension)
        return p.name + "." + std::to_string(axis);
  return "";
}

// Sizes of a run as --dims takes them. A name that would be read as two items ("a=1,b") is replaced by an axis of an
// input that has the dimension. "": no text is read as these sizes.
std::string dims_text(const plan::Program& program, const DimBinding& dims) {
  std::string out;
  Sizes wanted, read;
  for (const auto& [name, tuned] : program.tuned_for) {
    const auto it = dims.find(name);
    if (it == dims.end()) continue;
    Sizes alone;
    const bool whole = add_dims(name + "=1", &alone).ok() && alone.contains(name);
    const std::string key = whole ? name : axis_of(program, name);
    wanted.emplace(key, it->second);
    out += (out.empty() ? "" : ",") + key + "=" + std::to_string(it->second);
  }
  return add_dims(out, &read).ok() && read == wanted ? out : "";
}
}  // namespace

bool note_untuned(const Arguments& arguments, const Opened& opened, const DimBinding& dims) {
  const std::optional<build::Untuned> untuned = build::untuned(opened.engine->program(), dims);
  if (!untuned) return false;
  std::string text =
      "note: tuned for " + untuned->tuned + ", run at " + untuned->here + ": right, but perhaps not fastest";
  if (const std::string sizes = dims_text(opened.engine->program(), dims); !sizes.empty())
    text += "; to tune for it: peri build " + (opened.compiled ? shell_word(arguments.positional[0]) : "MODEL") +
            " -o ENGINE --dims " + shell_word(sizes);
  say(text);
  return true;
}

Result<DimBinding> program_dims(const Arguments& arguments, const plan::Program& program, const DimBinding& known) {
  PERI_ASSIGN(const auto given, given_dims(arguments));
  return build::program_dims(program, given, known);
}

}  // namespace peri::cli
