// Builds through the C interface: the caller's options become a request, as for the command line.
#include <algorithm>
#include <cstddef>

#include "api/callbacks.hpp"
#include "api/handles.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"
#include "build/request.hpp"
#include "build/survey.hpp"
#include "kernels/outside/outside.hpp"

namespace peri::api {

Result<std::map<std::string, int64_t>> named_dims(const peri_dim* dims, size_t count, const char* member) {
  std::map<std::string, int64_t> out;
  if (!dims && count) return usage("the option %s is NULL, and its count is %zu", member, count);
  const std::string_view name = member;
  const char* const what = name == "min_dims"   ? "smallest dimension"
                           : name == "max_dims" ? "largest dimension"
                                                : "dimension";
  for (size_t k = 0; k < count; ++k) {
    if (!dims[k].name) return usage("%s %zu has no name", what, k);
    if (dims[k].value < 0)
      return usage("%s '%s' is %lld", what, dims[k].name, static_cast<long long>(dims[k].value))
          .expecting("at least 0");
    if (!out.emplace(dims[k].name, dims[k].value).second) return usage("%s '%s' is given twice", what, dims[k].name);
  }
  return out;
}

namespace {
// An empty path is no wish to leave it out: a variable that should hold one is not set.
Status take_path(const char* given, const char* name, std::string* out) {
  if (given && !*given) return usage("the option %s is an empty path", name).advise("give NULL to leave it out");
  if (given) *out = given;
  return Ok{};
}

Status take_words(const peri_build_options& given, build::Request* r) {
  constexpr const char* kTypes = "f32, f16 or bf16";
  PERI_TRY(take_word(given.backend, "backend", "auto, cpu or cuda", &r->backend));
  PERI_TRY(take_word(given.dtype, "dtype", kTypes, &r->dtype));
  PERI_TRY(take_word(given.io_dtype, "io_dtype", kTypes, &r->io_dtype));
  PERI_TRY(take_word(given.provider, "provider", "peri, onednn, cublaslt, cudnn, outside or reference", &r->provider));
  return take_word(given.device, "device", kDeviceWord, &r->device);
}

Result<build::Request> request_of(const char* model, const peri_build_options& given, const Callbacks& callbacks) {
  build::Request r;
  r.model = model;
  PERI_ASSIGN(r.dims, named_dims(given.dims, given.dim_count, "dims"));
  PERI_ASSIGN(r.min_dims, named_dims(given.min_dims, given.min_dim_count, "min_dims"));
  PERI_ASSIGN(r.max_dims, named_dims(given.max_dims, given.max_dim_count, "max_dims"));
  PERI_TRY(take_words(given, &r));
  r.threads = given.threads;
  r.tune = given.no_tune == 0;
  r.verify = given.no_verify == 0;
  if (given.struct_size <= offsetof(peri_build_options, no_verify)) r.verify = r.tune;  // as that version had it
  r.cache = given.no_cache == 0;
  if (std::string folder; given.cache_folder) {
    PERI_TRY(take_path(given.cache_folder, "cache_folder", &folder));
    r.cache_folder = folder;
  }
  for (size_t k = 0; k < given.disabled_pass_count; ++k) {
    if (!given.disabled_passes || !given.disabled_passes[k]) return usage("disabled pass %zu has no name", k);
    r.disabled_passes.emplace_back(given.disabled_passes[k]);
  }
  PERI_TRY(take_path(given.dump_folder, "dump_folder", &r.dump_dir));
  PERI_TRY(take_path(given.engine_path, "engine_path", &r.engine_path));
  PERI_TRY(take_path(given.lock_path, "lock_path", &r.lock_path));
  PERI_TRY(take_path(given.locked_path, "locked_path", &r.locked_path));
  r.proof = given.proof != 0;
  r.settings = given.settings;
  r.budget = given.budget;
  r.retune = given.retune != 0;
  if (r.retune && !(r.cache && r.tune)) return usage("retune goes with neither no_tune nor no_cache");
  if (r.budget > 0 && !r.tune) return usage("the option budget bounds the tuning, and no_tune leaves it out");
  if (r.settings > 0 && !r.tune) return usage("the option settings is for tuning, and no_tune leaves it out");
  if ((r.budget > 0 || r.settings > 0 || r.retune) && !r.locked_path.empty())
    return usage("the option %s is for tuning, and the option locked_path takes every choice from the lock file",
                 r.budget > 0     ? "budget"
                 : r.settings > 0 ? "settings"
                                  : "retune");
  r.worker = given.no_worker == 0;
  r.force = given.force != 0;
  for (size_t k = 0; k < given.fixed_count; ++k) {
    if (!given.fixed || !given.fixed[k].name || !given.fixed[k].value)
      return usage("fixed input %zu has no name or no value", k);
    r.fixed[given.fixed[k].name] = given.fixed[k].value;
  }
  r.strict_placement = given.strict_placement != 0;
  PERI_ASSIGN(r.max_iterations, iteration_limit(given.max_iterations));
  r.progress = callbacks.progress();
  r.stop = callbacks.stop();
  r.may_write = [callbacks] { return callbacks.result(Status(Ok{})); };
  return r;
}

Result<std::unique_ptr<peri_engine>> build_engine(const char* model, const peri_build_options& given) {
  const Log log{given.log, given.log_user};
  PERI_TRY(log.tell_of_knobs());
  PERI_ASSIGN(runtime::EngineOptions run_options, engine_options(given.threads, given.allocator, given.device));
  const Callbacks callbacks(given.progress, given.stop, given.user);
  PERI_ASSIGN(const build::Request request, request_of(model, given, callbacks));
  run_options.max_iterations = request.max_iterations;
  PERI_ASSIGN(build::Made made, callbacks.result(build::make_engine(request)));
  compile::Compiled* compiled = &made.built.compiled;
  const std::string steps = build::steps_text(std::ssize(compiled->program.steps), build::body_steps(*compiled));
  PERI_TRY(log.tell(PERI_LOG_INFO, format("built %s: %s, %.1f s; %s", model, steps.c_str(), made.built.seconds,
                                          made.verdict().c_str())));
  for (const std::string& note : compiled->notes) PERI_TRY(log.tell(PERI_LOG_WARNING, note));
  if (compiled->program.devices.size() == 1) run_options.device.clear();
  PERI_ASSIGN(auto engine, build::assemble(compiled, std::move(run_options)));
  PERI_ASSIGN(auto out, to_handle(std::move(engine), log));
  out->path = model;
  out->proof = std::move(made.proof);
  return out;
}

}  // namespace

Result<const char*> proof_of(const peri_engine& engine) {
  const std::lock_guard<std::mutex> lock(engine.proof_lock);
  if (!engine.proof.empty()) return engine.proof.c_str();
  if (!engine.file)
    return usage("the build of this engine made no proof").in_file(engine.path).advise("set proof or engine_path");
  if (build::file_state(engine.place) != engine.state)
    return refused("the engine's file was replaced or moved since it was loaded, and its proof with it")
        .in_file(engine.path)
        .advise("load the file that is there now, or ask for the proof before");
  PERI_ASSIGN(const Json proof, build::read_proof(engine.place));
  JsonWriter w(1);
  w.value(proof);
  engine.proof = w.take() + "\n";
  return engine.proof.c_str();
}

}  // namespace peri::api

extern "C" {

peri_error* peri_engine_build(const char* model, const peri_build_options* options, peri_engine** out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!model || !out) return peri::usage("peri_engine_build needs a model and a place for the engine");
    PERI_ASSIGN(const peri_build_options o, peri::api::known_part(options, "peri_build_options"));
    PERI_ASSIGN(auto engine, peri::api::build_engine(model, o));
    *out = engine.release();
    return peri::Ok{};
  });
}

peri_error* peri_model_inspect(const char* model, const peri_build_options* options, peri_report** report) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!model || !report) return peri::usage("peri_model_inspect needs a model and a place for the report");
    PERI_ASSIGN(const peri_build_options o, peri::api::known_part(options, "peri_build_options"));
    const peri::api::Callbacks callbacks(o.progress, o.stop, o.user);
    PERI_ASSIGN(const peri::build::Request request, peri::api::request_of(model, o, callbacks));
    PERI_ASSIGN(const peri::build::Survey found, callbacks.result(peri::build::survey(request)));
    *report = std::make_unique<peri_report>(peri_report{peri::build::survey_json(found)}).release();
    return peri::Ok{};
  });
}

peri_error* peri_kernel_add(const char* manifest) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!manifest) return peri::usage("peri_kernel_add needs the path of a manifest");
    PERI_TRY(peri::kernels::outside::add(manifest));
    return peri::Ok{};
  });
}

peri_error* peri_engine_proof(const peri_engine* engine, const char** out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!engine || !out) return peri::usage("peri_engine_proof needs an engine and a place for the text");
    PERI_ASSIGN(*out, peri::api::proof_of(*engine));
    return peri::Ok{};
  });
}

}  // extern "C"
