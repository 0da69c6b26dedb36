// Subjects from models, from engine files and from engines in memory.
#include "build/subject.hpp"

#include <mutex>

#include "build/open.hpp"
#include "compile/backends.hpp"
#include "compile/own_names.hpp"
#include "device/open.hpp"
#include "exec/entry.hpp"
#include "judge/source.hpp"

namespace peri::build {

namespace {
Result<judge::Subject> open_engine(const Request& request, bool reference) {
  judge::Subject s;
  s.path = request.model;
  PERI_ASSIGN(const int threads, threads_of(request.threads));
  std::shared_ptr<const MappedFile> file;
  runtime::EngineOptions options = run_options(threads, {}, request.device);
  options.max_iterations = request.max_iterations;
  PERI_ASSIGN(s.engine, load(request.model, std::move(options), true, &file));
  s.weights_checked = static_cast<int64_t>(s.engine->program().weights.size());
  s.check_files = [file] { return file->check(); };
  if (!reference) return s;
  auto source = judge::source_graph(*s.engine);
  if (!source.ok()) return std::move(source).error().in_file(request.model);
  s.reference = std::move(source).value();
  s.source = true;
  return s;
}
}  // namespace

Result<judge::Subject> open_subject(const Request& request, bool reference, bool affordable) {
  if (is_engine(request.model)) return open_engine(request, reference);
  judge::Subject s;
  s.path = request.model;
  PERI_ASSIGN(const int threads, threads_of(request.threads));
  auto imported = compile::import_any(request.model, request.fixed, {request.dims, request.at_hand, request.min_dims});
  if (!imported.ok()) return std::move(imported).error().in_file(request.model);
  s.reference = std::move(imported->graph);
  s.check_files = std::move(imported->check_files);
  std::map<std::string, int64_t> dims = request.dims;
  if (affordable && compile::to_own_names(imported->sections, &dims).ok())
    if (const auto sizes = compile::possible_dims(s.reference, dims, request.at_hand); sizes.ok())
      if (Status few = judge::check_affordable(s.reference, *sizes); !few.ok())
        return std::move(few).error().in_file(request.model);
  PERI_ASSIGN(Made made, make_whole_engine(request));  // without the choices that its judge refuses
  compile::Compiled& compiled = made.built.compiled;
  s.notes = compiled.notes;
  runtime::EngineOptions options = run_options_of(compiled.program, threads, request.device);
  options.max_iterations = request.max_iterations;
  PERI_ASSIGN(s.engine, assemble(&compiled, std::move(options)));
  return s;
}

Result<judge::Subject> subject_of(std::shared_ptr<const runtime::Engine> engine, const std::string& path) {
  judge::Subject s;
  s.path = path;
  auto source = judge::source_graph(*engine);
  if (!source.ok()) return std::move(source).error().in_file(path);
  s.reference = std::move(source).value();
  s.source = true;
  s.engine = std::move(engine);
  return s;
}

namespace {
// The device that all engines of a suite run on.
struct SharedDevice {
  std::mutex lock;
  std::shared_ptr<device::Device> device;
  std::optional<device::Target> target;

  Status open(const Request& request, int threads) {
    const std::lock_guard<std::mutex> guard(lock);
    if (device) return Ok{};
    PERI_ASSIGN(const lower::Backend* const backend, compile::backend_for(request.backend, request.device));
    PERI_ASSIGN(target, backend->target(threads, exec::libraries(), request.device));
    PERI_ASSIGN(device, device::open_device(device::which_of(backend->placement.device, request.device)));
    return Ok{};
  }
};
}  // namespace

bool shares_device(const Request& request) {
  const auto backend = compile::backend_for(request.backend, request.device);
  return backend.ok() && (*backend)->target;
}

judge::SuiteBuilder suite_builder(const Request& request) {
  return [request, shared = std::make_shared<SharedDevice>()](
             const std::string& model,
             const std::vector<compile::InputShape>& inputs) -> Result<std::shared_ptr<const runtime::Engine>> {
    Request one = request;
    one.model = model;
    one.at_hand = inputs;
    one.worker = one.tune = false;
    const bool shares = shares_device(request);
    if (shares) one.verify = false;
    PERI_ASSIGN(compile::Options options, options_of(one));
    const int threads = shares ? 1 : options.tune.threads;
    if (shares) {
      PERI_TRY(shared->open(request, options.tune.threads));
      options.tune.target = shared->target;
    }
    PERI_ASSIGN(compile::Compiled compiled, compile::compile(std::move(options)));
    runtime::EngineOptions run = run_options_of(compiled.program, threads, request.device);
    run.max_iterations = request.max_iterations;
    if (shared->device) run.devices.push_back(shared->device);
    return assemble(&compiled, std::move(run));
  };
}

}  // namespace peri::build
