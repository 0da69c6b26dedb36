// Building or loading an engine from what the user typed.
#include "cli/core/model.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/clock.hpp"
#include "base/knobs.hpp"
#include "base/version.hpp"
#include "exec/entry.hpp"
#include "tune/worker.hpp"

namespace peri::cli {

std::vector<Flag> build_flags(std::vector<Flag> more) {
  std::vector<Flag> flags = {
      {"--dims", "", "NAME=N,...", "values of named dimensions: a name, INPUT.AXIS, batch or sequence", true},
      {"--shapes", "", "NAME:AxBxC", "the shape of an input, e.g. image:8x3x224x224", true},
      {"--opt-shapes", "", "NAME:AxBxC", "the same: the shape to tune for", true},
      {"--min-shapes", "", "NAME:AxBxC", "the smallest shape: every kernel chosen must take it", true},
      {"--max-shapes", "", "NAME:AxBxC", "the largest shape: every kernel chosen must take it", true},
      {"--dtype", "", "NAME", "element type of the arithmetic: f32 (f16 and bf16 models are converted)"},
      {"--threads", "", "N", "threads (default: the CPUs this process may use)"},
      {"--backend", "", "NAME", "auto, cpu or cuda (auto: cpu)"},
      {"--provider", "", "NAME", "only candidates of this provider: peri, onednn, reference"},
      {"--disable-pass", "", "NAME", "leave a pass out", true},
      {"--dump-passes", "", "DIR", "write the graph before and after each pass that changed it"},
      {"--no-tune", "", "", "take each kernel's first offer, without measuring"},
      {"--no-verify", "", "", "do not check candidates against the reference (the proof says so)"},
  };
  flags.push_back({"--no-cache", "", "", "neither read nor write the timing cache (see peri cache)"});
  for (Flag& f : more) flags.push_back(f);
  return flags;
}

Result<int> thread_count(const Arguments& arguments) {
  PERI_ASSIGN(const int64_t n, arguments.number("--threads", 1, 1024, usable_cpus()));
  return static_cast<int>(n);
}

namespace {
Status add_dims(const std::string& list, std::map<std::string, int64_t>* out) {
  size_t at = 0;
  while (at <= list.size()) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string item = list.substr(at, end - at);
    const size_t eq = item.rfind('=');
    int64_t v = 0;
    if (eq == std::string::npos || eq == 0 ||
        std::from_chars(item.data() + eq + 1, item.data() + item.size(), v).ptr != item.data() + item.size() ||
        eq + 1 == item.size())
      return usage("--dims is not NAME=N").but_found(item);
    (*out)[item.substr(0, eq)] = v;
    at = end + 1;
  }
  return Ok{};
}

Status add_shape(std::string_view flag, const std::string& item, std::map<std::string, int64_t>* out) {
  const size_t colon = item.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return usage("%s is not NAME:AxBxC", std::string(flag).c_str()).but_found(item);
  size_t at = colon + 1;
  for (int axis = 0; at <= item.size(); ++axis) {
    const size_t end = std::min(item.find('x', at), item.size());
    int64_t v = 0;
    if (std::from_chars(item.data() + at, item.data() + end, v).ptr != item.data() + end || end == at)
      return usage("%s is not NAME:AxBxC", std::string(flag).c_str()).but_found(item);
    (*out)[item.substr(0, colon) + "." + std::to_string(axis)] = v;
    at = end + 1;
  }
  return Ok{};
}

Result<std::map<std::string, int64_t>> given_shapes(const Arguments& arguments, std::string_view flag) {
  std::map<std::string, int64_t> out;
  for (const std::string& item : arguments.all(flag)) PERI_TRY(add_shape(flag, item, &out));
  return out;
}

Result<std::map<std::string, int64_t>> given_dims(const Arguments& arguments) {
  std::map<std::string, int64_t> out;
  for (const std::string& list : arguments.all("--dims")) PERI_TRY(add_dims(list, &out));
  for (const char* flag : {"--shapes", "--opt-shapes"}) {
    PERI_ASSIGN(const auto shapes, given_shapes(arguments, flag));
    for (const auto& [axis, value] : shapes) out[axis] = value;
  }
  return out;
}

Status check_dtype(const std::string& name) {
  if (name.empty() || name == "f32") return Ok{};
  if (name != "f16" && name != "bf16")
    return usage("--dtype is not an element type").expecting("f32, f16 or bf16").but_found(name);
  return unsupported("--dtype %s: the CPU backend computes in float32 for now", name.c_str())
      .advise(
          "leave --dtype out: models with float16 and bfloat16 weights run as they are, their arithmetic in float32");
}
}  // namespace

Result<compile::Options> build_options(const Arguments& arguments, const std::string& model, Progress* progress) {
  compile::Options o;
  o.model = model;
  o.backend = arguments.get("--backend", "auto");
  PERI_TRY(check_dtype(arguments.get("--dtype")));
  PERI_ASSIGN(o.dims, given_dims(arguments));
  PERI_ASSIGN(o.min_dims, given_shapes(arguments, "--min-shapes"));
  PERI_ASSIGN(o.max_dims, given_shapes(arguments, "--max-shapes"));
  o.disabled_passes = arguments.all("--disable-pass");
  o.dump_dir = arguments.get("--dump-passes");
  PERI_ASSIGN(o.tune.threads, thread_count(arguments));
  o.tune.provider = arguments.get("--provider");
  o.tune.measure = !arguments.has("--no-tune");
  o.tune.verify = !arguments.has("--no-verify");
  if (!arguments.has("--no-cache")) o.tune.cache_path = cache_folder();
  o.tune.stop = interrupted;
  o.tune.worker = tune::worker_program();
  o.builder = "peri " + std::string(version());
  if (progress)
    o.progress = [progress](size_t done, size_t total, const std::string& what) { progress->show(done, total, what); };
  return o;
}

runtime::ExecutorTable executors() {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  return kTable;
}

namespace {
runtime::EngineOptions engine_options(int threads) { return build::engine_options(executors(), threads); }
}  // namespace

Result<std::shared_ptr<const runtime::Engine>> engine_of(plan::LoadedEngine loaded, int threads) {
  const std::string path = loaded.file->name();
  auto engine = runtime::Engine::create(
      std::move(loaded.program), runtime::mapped_weights(loaded.weight_bytes, loaded.file), engine_options(threads));
  if (!engine.ok()) return std::move(engine).error().in_file(path);
  return engine;
}

Result<std::shared_ptr<const runtime::Engine>> load_engine_file(const std::string& path, int threads,
                                                                std::shared_ptr<const MappedFile>* file) {
  PERI_ASSIGN(plan::LoadedEngine loaded, plan::load_engine(path));
  if (file) *file = loaded.file;
  return engine_of(std::move(loaded), threads);
}

bool is_engine(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && plan::looks_like_engine(path);
}

Result<std::shared_ptr<const runtime::Engine>> assemble(compile::Compiled* compiled, int threads) {
  PERI_ASSIGN(auto assembled, plan::assemble_engine(compiled->program, compiled->weights));
  compiled->weights.clear();
  return runtime::Engine::create(std::move(assembled.program), {assembled.weight_bytes, assembled.keep, {}},
                                 engine_options(threads));
}

Result<compile::Compiled> compile_whole(const compile::Options& options, Progress* progress) {
  auto compiled = compile::compile(options);
  if (progress) progress->clear();
  if (!compiled.ok()) return std::move(compiled).error().in_file(options.model);
  if (interrupted())
    return Error(ErrorKind::kCancelled, "interrupted while the engine was built").in_file(options.model);
  return compiled;
}

Result<build::Built> build_whole(const compile::Options& options, Progress* progress) {
  auto built = build::build_engine({options, options.tune.verify, executors()});
  if (progress) progress->clear();
  if (!built.ok()) return std::move(built).error().in_file(options.model);
  return built;
}

Result<Opened> open_model(const Arguments& arguments, const std::string& path, Progress* progress) {
  Opened out;
  PERI_ASSIGN(const int threads, thread_count(arguments));
  const int64_t start = now_ns();
  if (is_engine(path)) {
    PERI_ASSIGN(plan::LoadedEngine loaded, plan::load_engine(path));
    if (arguments.has("--check")) PERI_TRY(plan::check_weights(loaded));
    out.file = loaded.file;
    PERI_ASSIGN(out.engine, engine_of(std::move(loaded), threads));
    out.load_ms = seconds_since(start) * 1e3;
    return out;
  }
  if (arguments.has("--check")) return usage("--check is for engines").in_file(path);
  PERI_ASSIGN(const compile::Options options, build_options(arguments, path, progress));
  PERI_ASSIGN(build::Built built, build_whole(options, progress));
  if (interrupted())
    return Error(ErrorKind::kCancelled, "interrupted while the engine was built").in_file(options.model);
  out.compiled = std::move(built.compiled);
  PERI_ASSIGN(out.engine, assemble(&*out.compiled, threads));
  out.load_ms = seconds_since(start) * 1e3;
  return out;
}

bool note_untuned(const Arguments& arguments, const Opened& opened, const DimBinding& dims) {
  const plan::Program& program = opened.engine->program();
  std::string tuned, here;
  for (const auto& [name, value] : program.tuned_for) {
    const auto it = dims.find(name);
    if (it == dims.end()) continue;  // bound by the data
    tuned += (tuned.empty() ? "" : ",") + name + "=" + std::to_string(value);
    here += (here.empty() ? "" : ",") + name + "=" + std::to_string(it->second);
  }
  if (tuned == here) return false;
  if (!arguments.has("--quiet"))
    std::fprintf(stderr,
                 "note: tuned for %s, run at %s: right, but perhaps not fastest; to tune for it: peri build %s -o "
                 "ENGINE --dims %s\n",
                 tuned.c_str(), here.c_str(), opened.compiled ? arguments.positional[0].c_str() : "MODEL",
                 here.c_str());
  return true;
}

Result<DimBinding> program_dims(const Arguments& arguments, const plan::Program& program) {
  ir::Graph interface_graph;
  for (const plan::Port& p : program.inputs) interface_graph.add_input(p.name, ir::Type(p.dtype, p.shape));
  PERI_ASSIGN(const auto given, given_dims(arguments));
  return compile::resolve_dims(interface_graph, given, {program.tuned_for.begin(), program.tuned_for.end()});
}

}  // namespace peri::cli
