// Checks and prepares a model for serving, in the order in which it may be refused.
#include "build/servable.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "base/heap.hpp"
#include "base/kept_files.hpp"
#include "base/path.hpp"
#include "base/stop.hpp"
#include "base/thread_pool.hpp"
#include "bench/measure.hpp"
#include "build/batch_check.hpp"
#include "build/kept_engine.hpp"
#include "build/open.hpp"
#include "build/ragged_check.hpp"
#include "build/servable_checks.hpp"
#include "compile/backends.hpp"
#include "compile/own_names.hpp"
#include "judge/seeded.hpp"
#include "plan/class_names.hpp"
#include "serve/kserve/datatype.hpp"
#include "serve/kserve/infer_request.hpp"
#include "text/pipeline.hpp"

namespace peri::build {
namespace {

using serve::ModelConfig;
using serve::PortConfig;

// Waking threads costs more than a run of less than this.
constexpr int64_t kOneThreadNs = 200000;
// Of memory that a build or a check has freed: what the worker's allocator keeps of its own accord (M_TRIM_THRESHOLD of
// serve and serve-worker), so that what is kept here is not given back there with the next request.
constexpr size_t kKeptBytes = size_t{64} << 20;

// The section of a kept engine with the importer's notes on its model: the next start imports nothing.
constexpr std::string_view kNotesSection = "import_notes";

void add_note(std::string* notes, const std::string& note) { *notes += (notes->empty() ? "" : "; ") + note; }

// A kept engine, which no process deletes while what is returned in `file` lives. A server that starts again finds it
// then.
Result<std::shared_ptr<const runtime::Engine>> load_held(const std::string& path, const OptionsOf& run,
                                                         std::shared_ptr<const MappedFile>* file) {
  struct Held {
    Fd lock;
    std::shared_ptr<const MappedFile> file;
  };
  const auto held = std::make_shared<Held>();
  held->lock = hold_kept(path);
  auto engine = load(path, run, false, &held->file);
  if (engine.ok()) *file = {held, held->file.get()};
  return engine;
}

Result<std::shared_ptr<const runtime::Engine>> open_engine(const ServeOptions& options, const serve::LoadOrder& order,
                                                           int threads, std::shared_ptr<const MappedFile>* file,
                                                           const std::function<void(const std::string&)>& say,
                                                           std::string* remark) {
  const OptionsOf run = [&](const plan::Program& program) {
    runtime::EngineOptions out = run_options_of(program, threads, options.build.device);
    out.max_iterations = options.build.max_iterations;
    return out;
  };
  if (is_engine(order.path)) return load(order.path, run, false, file);
  Request request = options.build;
  request.model = order.path;
  request.one_model = false;
  using Device = ModelConfig::Device;
  if (request.backend == "auto" && order.config.device != Device::kAny)
    request.backend = compile::backend_of_kind(order.config.device == Device::kGpu);
  PERI_ASSIGN(const std::string kept, kept_engine(request, order.stamp));
  if (!kept.empty() && !request.retune && is_engine(kept)) {
    auto engine = load_held(kept, run, file);
    if (engine.ok()) return engine;
    say("the engine kept of an earlier build is not usable: " + engine.error().text());
  }
  say("building " + std::filesystem::path(order.path).filename().string());
  request.progress = [&](size_t done, size_t total, const std::string& what) {
    say(format("building: %zu of %zu: %s", done, total, what.c_str()));
  };
  PERI_ASSIGN(Made made, make_whole_engine(request));
  plan::Program& program = made.built.compiled.program;
  std::string notes;
  for (int64_t k = 0; k < made.built.compiled.import_notes; ++k)
    add_note(&notes, made.built.compiled.notes[static_cast<size_t>(k)]);
  if (!notes.empty()) program.sections.push_back({std::string(kNotesSection), notes});
  if (!kept.empty()) {
    Status written = plan::write_engine(kept, program, made.built.compiled.weights);
    auto engine = written.ok() ? load_held(kept, run, file) : std::move(written).error();
    trim_kept(kServedEngines, folder_of(kept), kept_limit_bytes(kServedEngines));
    if (engine.ok()) return engine;
    *remark = "the engine is not kept, and built again at the next start: " + engine.error().text();
  }
  return assemble(&made.built.compiled, run(program));
}

std::string config_dims(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (size_t k = 0; k < dims.size(); ++k) out += (k ? "," : "") + std::to_string(dims[k]);
  return out + "]";
}

// `ports`: as clients see them.
Status check_ports(const std::vector<PortConfig>& said, std::span<const plan::Port> ports, bool batch,
                   const char* kind) {
  for (const PortConfig& c : said) {
    const auto it = std::find_if(ports.begin(), ports.end(), [&](const plan::Port& p) { return p.name == c.name; });
    std::string names;
    for (const plan::Port& p : ports) names += (names.empty() ? "" : ", ") + p.name;
    if (it == ports.end())
      return invalid("the configuration's %s '%s' is none of the model's", kind, c.name.c_str()).expecting(names);
    if (!c.data_type.empty() && c.data_type != serve::config_datatype(it->dtype))
      return invalid("the configuration's %s '%s' is of another type than the model's", kind, c.name.c_str())
          .expecting(serve::config_datatype(it->dtype))
          .but_found(c.data_type);
    const size_t skip = batch ? 1 : 0;
    bool fits = c.dims.size() + skip == it->shape.size();
    for (size_t k = 0; fits && k < c.dims.size(); ++k)
      fits = c.dims[k] < 0 || !it->shape[k + skip].is_const() || it->shape[k + skip].value() == c.dims[k];
    if (!c.dims.empty() && !fits)
      return invalid("the configuration's %s '%s' has other dims than the model's%s", kind, c.name.c_str(),
                     batch ? ", of which the first is the batch" : "")
          .expecting(shape_text(it->shape))
          .but_found(config_dims(c.dims));
  }
  return Ok{};
}

Status check_device(const ModelConfig& config, const std::string& backend) {
  using Device = ModelConfig::Device;
  const bool on_host = backend == compile::backend_of_kind(false);
  if (config.device == Device::kGpu && on_host)
    return invalid("instance_group asks for KIND_GPU, the engine was made for the CPU")
        .advise("make it with 'peri build --backend cuda', or write KIND_CPU or KIND_AUTO");
  if (config.device == Device::kCpu && !on_host)
    return invalid("instance_group asks for KIND_CPU, the engine was made for %s", backend.c_str())
        .advise("make it with 'peri build --backend cpu', or write KIND_GPU or KIND_AUTO");
  return Ok{};
}

Status check_config(const ModelConfig& config, const plan::Program& program, const serve::Form* form) {
  PERI_TRY(check_device(config, program.backend));
  const bool batch = config.max_batch_size > 0;
  if (batch && !(form && form->ragged()))
    if (const auto symbol = batch_symbol(program); !symbol.ok())
      return invalid("max_batch_size is %lld, but %s", static_cast<long long>(config.max_batch_size),
                     symbol.error().message.c_str())
          .advise("take max_batch_size out of config.pbtxt");
  PERI_TRY(check_ports(config.inputs, form ? form->inputs() : program.inputs, batch, "input"));
  PERI_TRY(check_ports(config.outputs, form ? form->outputs() : program.outputs, batch, "output"));
  for (const auto* ports : {&program.inputs, &program.outputs})
    for (const plan::Port& p : *ports)
      if (serve::datatype_name(p.dtype).empty())
        return unsupported("'%s' is %s, for which the protocol has no name", p.name.c_str(),
                           std::string(dtype_name(p.dtype)).c_str())
            .advise("end it in the model with a Cast to a type that the protocol has, such as f32 or i8");
  return Ok{};
}

Result<int> threads_of_instance(const ServeOptions& options, const ModelConfig& config, int instances) {
  if (const auto it = config.parameters.find("threads"); it != config.parameters.end()) {
    int n = 0;
    const auto read = std::from_chars(it->second.data(), it->second.data() + it->second.size(), n);
    if (read.ec != std::errc() || read.ptr != it->second.data() + it->second.size() || n < 1 || n > 1024)
      return invalid("the parameter 'threads' must be a number from 1 to 1024").but_found(it->second);
    return n;
  }
  const int all = options.threads > 0 ? options.threads : usable_cpus();
  return std::max(1, all / instances);
}

// Nanoseconds of the fastest of three runs on one thread at the tuned sizes, after one that does not count. Errors:
// those of the run; of what seeded inputs say nothing, but for kRefused: then nobody's inputs would run.
Result<int64_t> one_thread_ns(const std::shared_ptr<const runtime::Engine>& engine, std::span<const Tensor> inputs) {
  if (inputs.empty()) return unsupported("no inputs can be made up");
  PERI_ASSIGN(const auto session, runtime::Session::create(engine, 1));
  constexpr int64_t kRuns = 3;  // the least of them is wanted to a tenth
  PERI_ASSIGN(const std::vector<double> ms,
              bench::time_runs(
                  {.warm_up_seconds = 0, .seconds = 0, .min_samples = kRuns, .max_samples = kRuns},
                  [&]() -> Status {
                    PERI_TRY(session->run(inputs));
                    return Ok{};
                  },
                  stop_asked));
  return static_cast<int64_t>(*std::min_element(ms.begin(), ms.end()) * 1e6);
}

// A sample of a file of the model's folder warmup/, as often as the batch has rows; without max_batch_size it is the
// whole.
Result<Tensor> sample_of(const serve::LoadOrder& order, const serve::WarmupConfig::Input& input, DType dtype,
                         const std::vector<int64_t>& dims) {
  if (!serve::plain_name(input.file)) return invalid("input_data_file must be a plain file name").but_found(input.file);
  PERI_ASSIGN(const std::string bytes, read_file(order.folder + "/warmup/" + input.file, int64_t{1} << 30));
  const int64_t rows = order.config.max_batch_size > 0 ? dims[0] : 1;
  PERI_ASSIGN(const int64_t numel, checked_numel(dims));
  if (dtype == DType::kString) {
    PERI_ASSIGN(const auto row,
                serve::parse_byte_strings(std::as_bytes(std::span(bytes)), numel / rows, {.element_bytes = SIZE_MAX}));
    std::vector<std::string> all;
    for (int64_t k = 0; k < rows; ++k) all.insert(all.end(), row.begin(), row.end());
    return Tensor::strings(dims, std::move(all));
  }
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(dtype, dims));
  if (bytes.size() * static_cast<size_t>(rows) != out.bytes().size())
    return invalid("a sample of '%s' takes %zu bytes", input.port.name.c_str(),
                   out.bytes().size() / static_cast<size_t>(rows))
        .but_found(format("%zu", bytes.size()))
        .in_file(input.file);
  for (int64_t k = 0; k < rows; ++k)
    std::memcpy(out.mutable_data() + static_cast<size_t>(k) * bytes.size(), bytes.data(), bytes.size());
  return out;
}

// The inputs that the configuration's sample stands for are those of the model.
Status check_warmup(const plan::Program& program, const serve::WarmupConfig& w) {
  for (const serve::WarmupConfig::Input& i : w.inputs) {
    const auto it = std::find_if(program.inputs.begin(), program.inputs.end(),
                                 [&](const plan::Port& p) { return p.name == i.port.name; });
    if (it == program.inputs.end()) return invalid("the model has no input '%s'", i.port.name.c_str());
    if (!i.port.data_type.empty() && i.port.data_type != serve::config_datatype(it->dtype))
      return invalid("the input '%s' has another data_type", i.port.name.c_str())
          .expecting(serve::config_datatype(it->dtype))
          .but_found(i.port.data_type);
  }
  return Ok{};
}

Status run_warmup(runtime::EngineServable& model, const serve::LoadOrder& order, const serve::WarmupConfig& w) {
  const plan::Program& program = model.engine().program();
  PERI_TRY(check_warmup(program, w));
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const plan::Port& p = program.inputs[k];
    const auto it =
        std::find_if(w.inputs.begin(), w.inputs.end(), [&](const auto& i) { return i.port.name == p.name; });
    if (it == w.inputs.end()) return invalid("it lacks the input '%s'", p.name.c_str());
    std::vector<int64_t> dims = it->port.dims;
    if (order.config.max_batch_size > 0) dims.insert(dims.begin(), std::max<int64_t>(w.batch_size, 1));
    plan::Port exact = p;
    exact.shape.assign(dims.begin(), dims.end());
    PERI_ASSIGN(Tensor t, !it->file.empty() ? sample_of(order, *it, p.dtype, dims)
                          : it->random      ? judge::random_input(exact, {}, 1 + k)
                                            : Tensor::zeros(p.dtype, dims));
    inputs.push_back(std::move(t));
  }
  for (int64_t n = 0; n < std::max<int64_t>(w.count, 1) && !stop_asked(); ++n) PERI_TRY(model.warm(inputs));
  return Ok{};
}

Status warm_up(runtime::EngineServable& model, const serve::LoadOrder& order) {
  for (const serve::WarmupConfig& w : order.config.warmups)
    if (Status s = run_warmup(model, order, w); !s.ok()) {
      Error e = std::move(s).error();
      e.message = "model_warmup '" + w.name + "': " + e.message;
      return e;
    }
  return Ok{};
}

// The sizes that batches may have, and what is said of them.
Status settle_batches(const ServeOptions& options, const serve::LoadOrder& order, runtime::EngineServable& model,
                      const serve::Form* form, const std::function<void(const std::string&)>& say, serve::Loaded* out) {
  const ModelConfig& config = order.config;
  if (config.batching && config.max_batch_size <= 1)  // its queue is as the configuration says
    out->note = "no batches: max_batch_size is " + std::to_string(config.max_batch_size);
  if (!config.wants_batches() || config.max_batch_size == 1) return Ok{};
  if (order.known_sizes) {
    out->batch_sizes = *order.known_sizes;
    return Ok{};
  }
  const auto answers = config.parameters.find("batch_answers");
  if (answers != config.parameters.end() && answers->second == "bounded") {
    for (int64_t s = 1; s <= config.max_batch_size; ++s) out->batch_sizes.push_back(s);
    out->note = "batches of any size: an answer may differ in its last bits by the batch it rode in";
    return Ok{};
  }
  say("holding batches against single answers");
  const auto& wanted = config.batching ? config.batching->preferred : config.sequences->preferred;
  BatchCheck check = form && form->ragged()
                         ? check_ragged(model, *form, config.max_batch_size, options.check_seconds)
                         : check_batches(model, config.max_batch_size, wanted, options.check_seconds);
  out->batch_sizes = std::move(check.sizes);
  out->note = std::move(check.note);
  return Ok{};
}

// Sizes that are fixed, and names that mean one dimension, in the note and for clients.
void tell_dims(const plan::Program& program, serve::Loaded* out) {
  for (const std::string& note : compile::dims_notes(program))
    if (out->note.find(note) == std::string::npos) add_note(&out->note, note);  // else the importer told it
  std::string fixed, same;
  for (const auto& [name, size] : compile::fixed_dims(program))
    fixed += (fixed.empty() ? "" : ",") + name + "=" + std::to_string(size);
  for (const auto& [name, kept] : compile::own_names(program.sections))
    same += (same.empty() ? "" : ",") + name + "=" + kept;
  if (!fixed.empty()) out->told["peri_fixed_dims"] = fixed;
  if (!same.empty()) out->told["peri_same_dims"] = same;
}
}  // namespace

Result<serve::Loaded> load_servable(const ServeOptions& options, const serve::LoadOrder& order,
                                    const std::function<void(const std::string&)>& say) {
  const ModelConfig& config = order.config;
  const StopScope stop(options.build.stop);
  const int instances = static_cast<int>(std::max<int64_t>(order.instances.value_or(config.instances()), 1));
  PERI_ASSIGN(int threads, threads_of_instance(options, config, instances));
  std::shared_ptr<const MappedFile> file;
  std::string remark;
  PERI_ASSIGN(const auto engine, open_engine(options, order, threads, &file, say, &remark));
  const plan::Program& program = engine->program();
  PERI_ASSIGN(const auto form, serve::Form::make(config, program.inputs, program.outputs, order.folder));
  PERI_TRY(check_config(config, program, form.get()));
  serve::Loaded out;
  out.memory_bytes = planned_bytes(program, instances, config.max_batch_size);
  PERI_TRY(check_fits(out.memory_bytes, serve::read_ram()));
  std::vector<Tensor> seeded;
  if (const auto dims = program_dims(program, {}); dims.ok())
    if (auto made = judge::random_inputs(program, *dims, 1); made.ok()) seeded = std::move(*made);
  const Result<int64_t> ns = one_thread_ns(engine, seeded);
  if (!ns.ok() && ns.error().kind == ErrorKind::kRefused) return ns.error();
  if (ns.ok() && *ns < kOneThreadNs && !config.parameters.count("threads")) threads = 1;
  PERI_ASSIGN(const auto servable, runtime::EngineServable::create(engine, instances, threads, file));
  out.servable = servable;
  out.backend = program.backend;
  if (ns.ok()) PERI_TRY(servable->warm(seeded));
  PERI_TRY(warm_up(*servable, order));
  auto canary = make_canary(*servable);
  for (const plan::Section& s : program.sections)
    if (s.name == text::kTokenizerSection || s.name == text::kPipelineSection || s.name == plan::kClassNamesSection)
      out.sections[s.name] = s.bytes;
  PERI_TRY(settle_batches(options, order, *servable, form.get(), say, &out));
  if (stop_asked()) return Error(ErrorKind::kCancelled, "interrupted while it was loaded");
  if (canary.ok())
    out.canary = std::move(*canary);
  else
    add_note(&out.note, "no known question is asked of it: " + canary.error().text());
  if (!remark.empty()) add_note(&out.note, remark);
  if (const plan::Section* const notes = program.section(kNotesSection)) add_note(&out.note, notes->bytes);
  tell_dims(program, &out);
  give_back_memory(kKeptBytes);
  return out;
}

}  // namespace peri::build
