// Engines through the C interface: loading, and their inputs and outputs.
#include <algorithm>
#include <filesystem>

#include "api/handles.hpp"
#include "base/plural.hpp"
#include "build/on_reference.hpp"
#include "build/open.hpp"
#include "build/request.hpp"

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
    for (const Dim& d : p.shape) out.back().push_back(d.is_symbol() ? d.symbol_name() : d.text());
  }
  return out;
}

Result<std::unique_ptr<peri_engine>> load(const char* path, const peri_engine_options& given) {
  PERI_ASSIGN(runtime::EngineOptions run_options, engine_options(given.threads, given.allocator, given.device));
  PERI_ASSIGN(run_options.max_iterations, iteration_limit(given.max_iterations));
  std::error_code none;
  std::string place = std::filesystem::absolute(path, none).string();
  const build::FileState state = build::file_state(place);  // before it is mapped: one that replaces it is another
  std::shared_ptr<const MappedFile> file;
  PERI_ASSIGN(auto engine, build::load(path, std::move(run_options), given.check_weights != 0, &file));
  const Log log{given.log, given.log_user};
  PERI_TRY(log.tell_of_knobs());
  PERI_TRY(log.tell(PERI_LOG_INFO, format("loaded %s: %s, made by %s", path,
                                          counted(std::ssize(engine->program().steps), "step").c_str(),
                                          engine->program().builder.c_str())));
  if (const std::string mark = build::interrupted_build(engine->program()); !mark.empty())
    PERI_TRY(log.tell(PERI_LOG_WARNING, mark));
  PERI_ASSIGN(auto out, to_handle(std::move(engine), log));
  out->path = path;
  out->file = std::move(file);
  out->place = std::move(place);
  out->state = state;
  return out;
}
}  // namespace

Result<int64_t> iteration_limit(int64_t given) {
  if (given < 0) return usage("max_iterations is below 0");
  return given;
}

Status take_word(const char* given, const char* name, const char* takes, std::string* out) {
  if (given && !*given)
    return usage("the option %s is empty", name).expecting(takes).advise("give NULL for the default");
  if (given) *out = given;
  return Ok{};
}

Result<runtime::EngineOptions> engine_options(int threads, const peri_allocator* allocator, const char* device) {
  PERI_ASSIGN(const int count, build::threads_of(threads));
  PERI_ASSIGN(const peri_allocator a, known_part(allocator, "peri_allocator"));
  if (!a.allocate != !a.release)
    return usage("peri_allocator has only one of its functions").expecting("allocate and release, or neither");
  std::string name;
  PERI_TRY(take_word(device, "device", kDeviceWord, &name));
  return build::run_options(count, {a.allocate, a.release, a.user}, name);
}

Result<std::unique_ptr<peri_engine>> to_handle(std::shared_ptr<const runtime::Engine> engine, Log log) {
  if (const std::string slow = build::slow_steps_text(engine->program()); !slow.empty())
    PERI_TRY(log.tell(PERI_LOG_WARNING, slow));
  auto out = std::make_unique<peri_engine>();
  out->input_dims = dim_texts(engine->program().inputs);
  out->output_dims = dim_texts(engine->program().outputs);
  out->engine = std::move(engine);
  out->log = log;
  return out;
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
    *out = engine.release();
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
