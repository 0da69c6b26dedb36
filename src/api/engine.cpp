// Engines across the C interface: loaded from a file or built from a model, and what they take and give.
#include <algorithm>

#include "api/handles.hpp"
#include "base/file.hpp"
#include "base/version.hpp"
#include "build/build.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "plan/engine_file.hpp"
#include "plan/lock_file.hpp"
#include "tune/worker.hpp"

namespace peri::api {

namespace {
// The C numbers are ours: a program may be compiled against them.
static_assert(static_cast<int>(DType::kF32) == PERI_F32 && static_cast<int>(DType::kF64) == PERI_F64);
static_assert(static_cast<int>(DType::kF16) == PERI_F16 && static_cast<int>(DType::kBF16) == PERI_BF16);
static_assert(static_cast<int>(DType::kI8) == PERI_I8 && static_cast<int>(DType::kI64) == PERI_I64);
static_assert(static_cast<int>(DType::kU8) == PERI_U8 && static_cast<int>(DType::kU64) == PERI_U64);
static_assert(static_cast<int>(DType::kBool) == PERI_BOOL && static_cast<int>(DType::kString) == PERI_STRING);

std::vector<std::vector<std::string>> dim_texts(const std::vector<plan::Port>& ports) {
  std::vector<std::vector<std::string>> out;
  for (const plan::Port& p : ports) {
    out.emplace_back();
    for (const Dim& d : p.shape) out.back().push_back(d.text());
  }
  return out;
}

std::string text_or(const char* text, const char* fallback) { return text ? text : fallback; }

Result<compile::Options> options_of(const char* model, const peri_build_options& given) {
  compile::Options o;
  o.model = model;
  for (size_t k = 0; k < given.dim_count; ++k) {
    if (!given.dims || !given.dims[k].name) return usage("dimension %zu has no name", k);
    o.dims[given.dims[k].name] = given.dims[k].value;
  }
  o.tune.threads = given.threads > 0 ? given.threads : usable_cpus();
  o.tune.provider = text_or(given.provider, "");
  o.tune.measure = o.tune.verify = given.no_tune == 0;
  o.tune.worker = tune::worker_program();
  o.builder = "peri " + std::string(version());
  if (given.progress)
    o.progress = [call = given.progress, user = given.user](size_t done, size_t total, const std::string& what) {
      call(user, done, total, what.c_str());
    };
  if (given.locked_path) {
    PERI_ASSIGN(o.lock, plan::read_lock(given.locked_path));
  }
  return o;
}

Result<std::shared_ptr<const runtime::Engine>> build(const char* model, const peri_build_options& given) {
  const Log log{given.log, given.log_user};
  PERI_ASSIGN(runtime::EngineOptions run_options, engine_options(given.threads, given.allocator));
  PERI_ASSIGN(const compile::Options options, options_of(model, given));
  auto built = build::build_engine({options, options.tune.verify, run_options.executors});
  if (!built.ok()) return std::move(built).error().in_file(model);
  compile::Compiled* compiled = &built->compiled;
  if (given.engine_path) PERI_TRY(plan::write_engine(given.engine_path, compiled->program, compiled->weights));
  if (given.lock_path) PERI_TRY(write_file_atomic(given.lock_path, plan::lock_text(compiled->lock)));
  log.tell(PERI_LOG_INFO, format("built %s: %zu steps, %.1f s", model, compiled->program.steps.size(),
                                 compiled->import_seconds + compiled->passes_seconds + compiled->tune_seconds));
  for (const std::string& note : compiled->notes) log.tell(PERI_LOG_WARNING, note);
  PERI_ASSIGN(auto assembled, plan::assemble_engine(compiled->program, compiled->weights));
  compiled->weights.clear();
  return runtime::Engine::create(std::move(assembled.program), {assembled.weight_bytes, assembled.keep, {}},
                                 std::move(run_options));
}

Result<std::shared_ptr<const runtime::Engine>> load(const char* path, const peri_engine_options& given) {
  PERI_ASSIGN(runtime::EngineOptions run_options, engine_options(given.threads, given.allocator));
  PERI_ASSIGN(plan::LoadedEngine loaded, plan::load_engine(path));
  auto engine = runtime::Engine::create(
      std::move(loaded.program), runtime::mapped_weights(loaded.weight_bytes, loaded.file), std::move(run_options));
  if (!engine.ok()) return std::move(engine).error().in_file(path);
  Log{given.log, given.log_user}.tell(
      PERI_LOG_INFO, format("loaded %s: %zu steps, made by %s", path, (*engine)->program().steps.size(),
                            (*engine)->program().builder.c_str()));
  return engine;
}
}  // namespace

Result<runtime::EngineOptions> engine_options(int threads, const peri_allocator* allocator) {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  runtime::EngineOptions o;
  o.executors = kTable;
  o.threads = threads > 0 ? threads : usable_cpus();
  o.machine.isas = device::this_cpu().isas;
  o.machine.libraries = exec::libraries();
  PERI_ASSIGN(const peri_allocator a, known_part(allocator, "peri_allocator"));
  if (!a.allocate != !a.release)
    return usage("peri_allocator has only one of its functions").expecting("allocate and release, or neither");
  o.allocator = {a.allocate, a.release, a.user};
  return o;
}

peri_engine* to_handle(std::shared_ptr<const runtime::Engine> engine, Log log) {
  const std::vector<plan::Step>& steps = engine->program().steps;
  const auto slow =
      std::count_if(steps.begin(), steps.end(), [](const plan::Step& s) { return s.executor == "reference"; });
  if (slow)
    log.tell(PERI_LOG_WARNING,
             format("%td of %zu steps have no kernel and run on the slow reference", slow, steps.size()));
  auto out = std::make_unique<peri_engine>();
  out->input_dims = dim_texts(engine->program().inputs);
  out->output_dims = dim_texts(engine->program().outputs);
  out->engine = std::move(engine);
  out->log = log;
  return out.release();
}

namespace {
const plan::Port* port_of(const std::vector<plan::Port>& ports, size_t index) {
  return index < ports.size() ? &ports[index] : nullptr;
}
const plan::Port* input(const peri_engine* e, size_t k) {
  return e ? port_of(e->engine->program().inputs, k) : nullptr;
}
const plan::Port* output(const peri_engine* e, size_t k) {
  return e ? port_of(e->engine->program().outputs, k) : nullptr;
}

const char* name_of(const plan::Port* p) { return p ? p->name.c_str() : ""; }
peri_dtype dtype_of(const plan::Port* p) { return p ? static_cast<peri_dtype>(p->dtype) : PERI_DTYPE_INVALID; }
size_t rank_of(const plan::Port* p) { return p ? p->shape.size() : 0; }
int64_t dim_of(const plan::Port* p, size_t axis) {
  if (!p || axis >= p->shape.size()) return 0;
  return p->shape[axis].is_const() ? p->shape[axis].value() : -1;
}
const char* text_of(const std::vector<std::vector<std::string>>& texts, size_t k, size_t axis) {
  return k < texts.size() && axis < texts[k].size() ? texts[k][axis].c_str() : "";
}
}  // namespace

}  // namespace peri::api

using peri::api::known_part;

extern "C" {

peri_error* peri_engine_load(const char* path, const peri_engine_options* options, peri_engine** out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!path || !out) return peri::usage("peri_engine_load needs a path and a place for the engine");
    PERI_ASSIGN(const peri_engine_options o, known_part(options, "peri_engine_options"));
    PERI_ASSIGN(auto engine, peri::api::load(path, o));
    *out = peri::api::to_handle(std::move(engine), {o.log, o.log_user});
    return peri::Ok{};
  });
}

peri_error* peri_engine_build(const char* model, const peri_build_options* options, peri_engine** out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!model || !out) return peri::usage("peri_engine_build needs a model and a place for the engine");
    PERI_ASSIGN(const peri_build_options o, known_part(options, "peri_build_options"));
    PERI_ASSIGN(auto engine, peri::api::build(model, o));
    *out = peri::api::to_handle(std::move(engine), {o.log, o.log_user});
    return peri::Ok{};
  });
}

void peri_engine_free(peri_engine* engine) { std::unique_ptr<peri_engine>{engine}.reset(); }

size_t peri_engine_input_count(const peri_engine* e) { return e ? e->engine->program().inputs.size() : 0; }
size_t peri_engine_output_count(const peri_engine* e) { return e ? e->engine->program().outputs.size() : 0; }
const char* peri_engine_input_name(const peri_engine* e, size_t k) {
  return peri::api::name_of(peri::api::input(e, k));
}
const char* peri_engine_output_name(const peri_engine* e, size_t k) {
  return peri::api::name_of(peri::api::output(e, k));
}
peri_dtype peri_engine_input_dtype(const peri_engine* e, size_t k) {
  return peri::api::dtype_of(peri::api::input(e, k));
}
peri_dtype peri_engine_output_dtype(const peri_engine* e, size_t k) {
  return peri::api::dtype_of(peri::api::output(e, k));
}
size_t peri_engine_input_rank(const peri_engine* e, size_t k) { return peri::api::rank_of(peri::api::input(e, k)); }
size_t peri_engine_output_rank(const peri_engine* e, size_t k) { return peri::api::rank_of(peri::api::output(e, k)); }
int64_t peri_engine_input_dim(const peri_engine* e, size_t k, size_t axis) {
  return peri::api::dim_of(peri::api::input(e, k), axis);
}
int64_t peri_engine_output_dim(const peri_engine* e, size_t k, size_t axis) {
  return peri::api::dim_of(peri::api::output(e, k), axis);
}
const char* peri_engine_input_dim_text(const peri_engine* e, size_t k, size_t axis) {
  return e ? peri::api::text_of(e->input_dims, k, axis) : "";
}
const char* peri_engine_output_dim_text(const peri_engine* e, size_t k, size_t axis) {
  return e ? peri::api::text_of(e->output_dims, k, axis) : "";
}

const char* peri_dtype_name(peri_dtype dtype) {
  const int n = static_cast<int>(dtype);
  if (n <= 0 || n >= peri::kDTypeCount) return "";
  return peri::dtype_name(static_cast<peri::DType>(n)).data();
}

}  // extern "C"
