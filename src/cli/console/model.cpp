// Building or loading an engine from what the user typed.
#include "cli/console/model.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/clock.hpp"
#include "base/thread_pool.hpp"

namespace peri::cli {

std::vector<Flag> build_flags(std::vector<Flag> more) {
  std::vector<Flag> flags = {
      {"--dims", "", "NAME=N,...", "values of named dimensions: a name, INPUT.AXIS, batch or sequence", true},
      {"--shapes", "", "NAME:AxBxC", "the shape of an input, e.g. image:8x3x224x224", true},
      {"--opt-shapes", "", "NAME:AxBxC", "the same: the shape to tune for", true},
      {"--min-shapes", "", "NAME:AxBxC", "the smallest shape: every kernel chosen must take it", true},
      {"--max-shapes", "", "NAME:AxBxC", "the largest shape: every kernel chosen must take it", true},
      {"--dtype", "", "NAME", "f32, f16 or bf16: of the weights, on a GPU of values too; else the model's own"},
      {"--io-dtype", "", "NAME", "f32, f16 or bf16: of inputs and outputs; else the model's own"},
      {"--threads", "", "N", "threads (default: the CPUs this process may use)"},
      {"--backend", "", "NAME", "auto, cpu or cuda (auto: cpu)"},
      {"--device", "", "KIND:N", "which one of several devices, e.g. cuda:1 (default: the first)"},
      {"--provider", "", "NAME", "only candidates of this provider: peri, onednn, cublaslt, reference"},
      {"--disable-pass", "", "NAME", "leave a pass out", true},
      {"--dump-passes", "", "DIR", "write the graph before and after each pass that changed it"},
      {"--budget", "", "SECONDS", "tune for so long, then take the best so far (default: until all is tried)"},
      {"--settings", "", "N", "settings of a kernel's tunables to try beside what it derives (default: 0)"},
      {"--no-tune", "", "", "take each kernel's first offer, without measuring"},
      {"--no-verify", "", "", "do not check candidates against the reference (the proof says so)"},
  };
  flags.push_back({"--no-cache", "", "", "neither read nor write the timing cache (see peri cache)"});
  flags.push_back(
      {"--retune", "", "", "verify and time every candidate again, and replace what the timing cache knows"});
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
}  // namespace

Result<build::Request> build_request(const Arguments& arguments, const std::string& model, Progress* progress) {
  build::Request r;
  r.model = model;
  r.backend = arguments.get("--backend", "auto");
  r.device = arguments.get("--device");
  r.dtype = arguments.get("--dtype");
  r.io_dtype = arguments.get("--io-dtype");
  PERI_ASSIGN(r.dims, given_dims(arguments));
  PERI_ASSIGN(r.min_dims, given_shapes(arguments, "--min-shapes"));
  PERI_ASSIGN(r.max_dims, given_shapes(arguments, "--max-shapes"));
  r.disabled_passes = arguments.all("--disable-pass");
  r.dump_dir = arguments.get("--dump-passes");
  PERI_ASSIGN(r.threads, thread_count(arguments));
  r.provider = arguments.get("--provider");
  PERI_ASSIGN(r.budget, arguments.real("--budget", 0, 1e6, 0));
  PERI_ASSIGN(const int64_t settings, arguments.number("--settings", 0, 64, 0));
  r.settings = static_cast<int>(settings);
  r.tune = !arguments.has("--no-tune");
  r.verify = !arguments.has("--no-verify");
  r.cache = !arguments.has("--no-cache");
  r.retune = arguments.has("--retune");
  if (r.retune && !(r.cache && r.tune)) return usage("--retune goes with neither --no-tune nor --no-cache");
  r.stop = interrupted;
  if (progress)
    r.progress = [progress](size_t done, size_t total, const std::string& what) { progress->show(done, total, what); };
  return r;
}

Result<Opened> open_model(const Arguments& arguments, const std::string& path, Progress* progress) {
  Opened out;
  PERI_ASSIGN(const int threads, thread_count(arguments));
  const int64_t start = now_ns();
  if (build::is_engine(path)) {
    PERI_ASSIGN(out.engine, build::load(path, build::run_options(threads, {}, arguments.get("--device")),
                                        arguments.has("--check"), &out.file));
  } else {
    if (arguments.has("--check")) return usage("--check is for engines").in_file(path);
    PERI_ASSIGN(const build::Request request, build_request(arguments, path, progress));
    auto made = build::make_whole_engine(request);
    if (progress) progress->clear();
    if (!made.ok()) return std::move(made).error();
    out.compiled = std::move(made->built.compiled);
    PERI_ASSIGN(out.engine,
                build::assemble(&*out.compiled, build::run_options_of(out.compiled->program, threads, request.device)));
  }
  out.load_ms = seconds_since(start) * 1e3;
  return out;
}

bool note_untuned(const Arguments& arguments, const Opened& opened, const DimBinding& dims) {
  const std::optional<build::Untuned> untuned = build::untuned(opened.engine->program(), dims);
  if (untuned && !arguments.has("--quiet"))
    std::fprintf(stderr,
                 "note: tuned for %s, run at %s: right, but perhaps not fastest; to tune for it: peri build %s -o "
                 "ENGINE --dims %s\n",
                 untuned->tuned.c_str(), untuned->here.c_str(),
                 opened.compiled ? arguments.positional[0].c_str() : "MODEL", untuned->here.c_str());
  return untuned.has_value();
}

Result<DimBinding> program_dims(const Arguments& arguments, const plan::Program& program) {
  PERI_ASSIGN(const auto given, given_dims(arguments));
  return build::program_dims(program, given);
}

}  // namespace peri::cli
