// The terms are a JSON text, so that different requests cannot have the same text.
#include "build/kept_engine.hpp"

#include <filesystem>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/kept_files.hpp"
#include "base/knobs.hpp"
#include "base/this_program.hpp"
#include "base/version.hpp"
#include "compile/backends.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/outside/outside.hpp"

namespace peri::build {

namespace {
constexpr std::string_view kTail = ".engine";
constexpr const char* kFolder = "/serve";
constexpr int64_t kMaxLockBytes = int64_t{1} << 30;  // far beyond any lock: bounds what an untrusted file takes

// A new variable does not compile until it is stated here whether engines depend on it.
bool changes_engines(Knob knob) {
  switch (knob) {
    case Knob::kEverySplit: return true;
    case Knob::kKernels:   // by what was read of it, as --kernel
    case Knob::kCudaPath:  // by the libraries that were found there, which the target names
    case Knob::kCache:
    case Knob::kPython:
    case Knob::kWorker:
    case Knob::kPackedCacheMib:
    case Knob::kEngineCacheMib:
    case Knob::kCodeCacheMib: return false;
  }
  return true;
}

template <class Map>
void add_map(JsonWriter& w, const char* name, const Map& map) {
  w.key(name).begin_object();
  for (const auto& [key, value] : map) w.field(key, value);
  w.end_object();
}

void add_shapes(JsonWriter& w, const std::vector<compile::InputShape>& shapes) {
  w.key("at_hand").begin_array();
  for (const compile::InputShape& s : shapes) {
    w.begin_object().field("name", s.name).key("dims").begin_array();
    for (const int64_t d : s.dims) w.value(d);
    w.end_array().end_object();
  }
  w.end_array();
}

// What plans are made for; where the backend has nothing here, whose build says so, this CPU.
device::Target target_of(const compile::Options& o) {
  const auto backend = compile::backend_named(o.backend);
  if (backend.ok() && (*backend)->target)
    if (auto made = (*backend)->target(o.tune.threads, exec::libraries(), o.device); made.ok()) return *std::move(made);
  return device::cpu_target(o.tune.threads, exec::libraries());
}

void add_surroundings(JsonWriter& w, const compile::Options& o) {
  w.field("version", version()).field("program", program_identity()).key("target");
  device::write_target(w, target_of(o));
  w.key("kernels").begin_array();
  for (const kernels::Kernel* k : kernels::kernels())
    if (const std::string hash = kernels::outside::hash_of(*k); !hash.empty()) w.value(hash);
  w.end_array().key("environment").begin_object();
  for (size_t k = 0; k < knob_rows().size(); ++k)
    if (const auto value = knob(static_cast<Knob>(k)); value && changes_engines(static_cast<Knob>(k)))
      w.field(knob_rows()[k].variable, *value);
  w.end_object();
}
}  // namespace

Result<std::string> engine_terms(const Request& request) {
  // A member that comes new does not compile until it has a name here; those that change no engine are not written.
  const auto& [model, dims, min_dims, max_dims, at_hand, backend, device, dtype, io_dtype, fixed, max_iterations,
               provider, budget, settings, threads, tune, verify, worker, cache, strict_placement, one_model, retune,
               cache_folder, disabled_passes, dump_dir, locked_path, engine_path, lock_path, proof, force, progress,
               log, stop, may_write, admits] = request;
  PERI_ASSIGN(const compile::Options options, options_of(request));
  JsonWriter w;
  w.begin_object().field("model", model).field("backend", backend).field("device", device);
  w.field("dtype", dtype)
      .field("io_dtype", io_dtype)
      .field("provider", provider)
      .field("max_iterations", max_iterations);
  w.field("budget", budget).field("settings", int64_t{settings}).field("threads", int64_t{options.tune.threads});
  w.field("tune", tune).field("verify", verify).field("strict_placement", strict_placement);
  add_map(w, "dims", dims);
  add_map(w, "min_dims", min_dims);
  add_map(w, "max_dims", max_dims);
  add_map(w, "fixed", fixed);
  add_shapes(w, at_hand);
  w.key("disabled_passes").begin_array();
  for (const std::string& pass : disabled_passes) w.value(pass);
  w.end_array();
  if (!locked_path.empty()) {
    PERI_ASSIGN(const std::string lock, read_file(locked_path, kMaxLockBytes));
    w.field("locked", hex64(hash_text(lock)));
  }
  add_surroundings(w, options);
  w.end_object();
  return w.take();
}

Result<std::string> kept_engine(const Request& request, uint64_t stamp) {
  const std::string root = request.cache_folder ? *request.cache_folder : cache_folder();
  if (root.empty() || !request.cache || !request.dump_dir.empty() || kept_limit_bytes(kServedEngines) == 0)
    return std::string();
  PERI_ASSIGN(const std::string terms, engine_terms(request));
  const std::string folder = kept_folder(kServedEngines, root);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return std::string();
  return folder + "/" + hex64(Hasher(stamp).add(terms).digest()) + std::string(kServedEngines.suffix);
}

}  // namespace peri::build
