// From model to program, top to bottom.
#include "compile/compile.hpp"

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "compile/backends.hpp"
#include "compile/build_sizes.hpp"
#include "compile/interface_types.hpp"
#include "compile/locks.hpp"
#include "compile/own_names.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/weights/narrow.hpp"
#include "passes/pipeline.hpp"
#include "plan/chip.hpp"
#include "plan/identity.hpp"

namespace peri::compile {

namespace {
std::string fixed_text(const std::map<std::string, std::string>& fixed) {
  std::string out;
  for (const auto& [name, value] : fixed) out += (out.empty() ? "" : ", ") + name + "=" + value;
  return fixed.empty() ? "none" : out;
}

// Whether a type that is asked for is what a model of these values has anyway, as the lock has it that names none.
bool is_own(DType asked, const std::string& locked, const std::vector<ir::Value*>& values) {
  return locked.empty() && std::all_of(values.begin(), values.end(), [&](const ir::Value* v) {
           return !is_float(v->type.dtype) || v->type.dtype == asked;
         });
}

// Options as the lock has them; what the caller said otherwise is a contradiction.
Status obey_lock(Options* o, const ir::Graph& graph) {
  const plan::Lock& lock = *o->lock;
  if (lock.builder != o->builder)
    return refused("the lock was made by another version")
        .expecting(lock.builder)
        .but_found(o->builder)
        .advise("build with --lock again");
  if (!backend_named(lock.backend).ok())
    return refused("the lock is for backend '%s', which this build does not have", lock.backend.c_str());
  if (o->backend != "auto" && o->backend != lock.backend)
    return refused("the lock was made for another backend").expecting(lock.backend).but_found(o->backend);
  o->backend = lock.backend;
  if (!o->tune.provider.empty() && o->tune.provider != lock.provider)
    return refused("the lock was made for another provider")
        .expecting(lock.provider.empty() ? "all" : lock.provider)
        .but_found(o->tune.provider);
  DType locked = DType::kInvalid;
  if (!lock.dtype.empty()) {
    PERI_ASSIGN(locked, parse_dtype(lock.dtype));
  }
  if (o->dtype != DType::kInvalid && o->dtype != locked && !is_own(o->dtype, lock.dtype, graph.constants()))
    return refused("the lock was made for other types of weights")
        .expecting(lock.dtype.empty() ? "the model's own" : lock.dtype)
        .but_found(std::string(dtype_name(o->dtype)));
  o->dtype = locked;
  DType ports = DType::kInvalid;
  if (!lock.io_dtype.empty()) {
    PERI_ASSIGN(ports, parse_dtype(lock.io_dtype));
  }
  std::vector<ir::Value*> interface = graph.inputs;
  interface.insert(interface.end(), graph.outputs.begin(), graph.outputs.end());
  if (o->io_dtype != DType::kInvalid && o->io_dtype != ports && !is_own(o->io_dtype, lock.io_dtype, interface))
    return refused("the lock was made for other types of inputs and outputs")
        .expecting(lock.io_dtype.empty() ? "the model's own" : lock.io_dtype)
        .but_found(std::string(dtype_name(o->io_dtype)));
  o->io_dtype = ports;
  if (o->fixed != lock.fixed)
    return refused("the lock was made with other inputs fixed")
        .expecting(fixed_text(lock.fixed))
        .but_found(fixed_text(o->fixed));
  PERI_TRY(passes::check_names(o->disabled_passes));
  if (!o->disabled_passes.empty() && o->disabled_passes != lock.disabled_passes)
    return refused("the lock was made with other passes disabled");
  const device::Target& target = o->tune.target ? *o->tune.target : device::this_cpu();
  for (const std::string& isa : plan::isas_of(lock))
    if (!target.has(isa)) return refused("the lock needs %s, which this machine does not have", isa.c_str());
  o->tune.provider = lock.provider;
  o->disabled_passes = lock.disabled_passes;
  o->tune.measure = o->tune.verify = false;
  return Ok{};
}

}  // namespace

Status check_provider(const std::string& provider, const lower::Backend& backend,
                      const std::optional<device::Target>& target) {
  std::set<std::string> known = {"", "reference"};
  std::string_view missing;
  for (const kernels::Kernel* k : kernels::kernels()) {
    if (std::find(backend.executors.begin(), backend.executors.end(), k->executor) == backend.executors.end()) continue;
    if (!target || kernels::has_library(*k, *target))
      known.emplace(k->provider);
    else if (k->provider == provider)
      missing = k->library;
  }
  if (known.contains(provider)) return Ok{};
  if (!missing.empty())
    return refused("provider '%s' needs %s, which was not found", provider.c_str(), std::string(missing).c_str())
        .advise("peri doctor shows where it was searched");
  std::string names;
  for (const std::string& name : known)
    if (!name.empty()) names += (names.empty() ? "" : ", ") + name;
  return usage("backend '%s' has no provider '%s'", std::string(backend.name).c_str(), provider.c_str())
      .expecting(names);
}

// How many elements of float constants each type has; on a device, in a graph without them, how many inputs.
static std::map<DType, int64_t> float_elements(const ir::Graph& graph, bool on_device) {
  std::map<DType, int64_t> out;
  for (const ir::Value* v : graph.constants())
    if (is_float(v->type.dtype)) out[v->type.dtype] += v->constant->numel();
  if (out.empty() && on_device)
    for (const ir::Value* v : graph.inputs)
      if (is_float(v->type.dtype)) ++out[v->type.dtype];
  return out;
}

// Weights are stored in the type asked for, else in the 16-bit type that most of the model's elements have.
static passes::Precision precision_of(const ir::Graph& graph, bool on_device, DType asked) {
  if (asked != DType::kInvalid) return {asked, true};
  DType own = DType::kInvalid;
  const auto elements = float_elements(graph, on_device);
  for (const auto& [type, count] : elements)
    if (kernels::is_narrow_float(type) && (own == DType::kInvalid || count > elements.at(own))) own = type;
  return {own, false};
}

// Whether the model is one of 16 bits: more than half of its float constants are (float_elements). One that has a
// scalar of such a type is not.
static bool is_narrow_model(const ir::Graph& graph, bool on_device) {
  int64_t narrow = 0, all = 0;
  for (const auto& [type, count] : float_elements(graph, on_device)) {
    all += count;
    if (kernels::is_narrow_float(type)) narrow += count;
  }
  return 2 * narrow > all;
}

struct Compilation::State {
  Options options;
  const lower::Backend* backend = nullptr;
  bool measured = true;  // what the backend plans for is here
  Imported imported;
  ir::Graph before;
  std::vector<peri::passes::PassReport> passes;
  peri::passes::Precision precision;
  bool own_narrow = false;    // the model itself is one of 16 bits
  plan::LockedModel made_of;  // before any pass
  BuildSizes sizes;
  std::unique_ptr<tune::Tuner> tuner;
  double import_seconds = 0, passes_seconds = 0, tune_seconds = 0;

  Status begin(Options given, Imported model);
  Result<Compiled> lower(const lower::RefusedChoices& refused, bool silent);
};
Compilation::Compilation() : state_(std::make_unique<State>()) {}
Compilation::~Compilation() = default;
const Options& Compilation::options() const { return state_->options; }
const ir::Graph& Compilation::imported() const { return state_->before; }
const std::vector<std::string>& Compilation::notes() const { return state_->imported.notes; }
const ir::Graph& Compilation::graph() const { return state_->imported.graph; }
const DimBinding& Compilation::tuned_for() const { return state_->sizes.tuned_for; }
const std::vector<DimBinding>& Compilation::bounds() const { return state_->sizes.bounds; }

namespace {
// A lock has the smallest sizes that were given with it.
ImportSizes import_sizes(const Options& options) {
  ImportSizes out{options.dims, options.at_hand, options.min_dims};
  if (options.lock) out.least.insert(options.lock->at_least.begin(), options.lock->at_least.end());
  return out;
}

// What choices are made for: of values without elements there is nothing to choose.
DimBinding at_least_one(DimBinding sizes) {
  for (auto& [name, value] : sizes) value = std::max<int64_t>(value, 1);
  return sizes;
}
std::vector<DimBinding> at_least_one(const std::vector<DimBinding>& all) {
  std::vector<DimBinding> out;
  for (const DimBinding& sizes : all) out.push_back(at_least_one(sizes));
  return out;
}
}  // namespace

Result<std::unique_ptr<Compilation>> Compilation::start(Options options) {
  return contained([&]() -> Result<std::unique_ptr<Compilation>> {
    const int64_t begun = now_ns();
    if (options.progress) options.progress(0, 0, "import " + options.model);
    PERI_ASSIGN(Imported model, import_any(options.model, options.fixed, import_sizes(options)));
    const double seconds = seconds_since(begun);
    PERI_ASSIGN(auto out, start(std::move(options), std::move(model)));
    out->state_->import_seconds = seconds;
    return out;
  });
}

Result<std::unique_ptr<Compilation>> Compilation::start(Options options, Imported model) {
  std::unique_ptr<Compilation> out(new Compilation());
  PERI_TRY(contained([&] { return out->state_->begin(std::move(options), std::move(model)); }));
  return out;
}

Result<Compiled> Compilation::lower(const lower::RefusedChoices& refused, bool silent) {
  return contained([&] { return state_->lower(refused, silent); });
}

Status Compilation::State::begin(Options given, Imported model) {
  options = std::move(given);
  imported = std::move(model);
  for (auto* dims : {&options.dims, &options.min_dims, &options.max_dims})
    PERI_TRY(to_own_names(imported.sections, dims));
  if (options.lock)
    if (Status same = obey_lock(&options, imported.graph); !same.ok())
      return std::move(same).error().advise("ask for what the lock was made for, or build with --lock again");
  PERI_ASSIGN(backend, backend_for(options.backend, options.device));
  options.tune.executors = backend->executors;
  options.tune.device = options.device;
  if (backend->placement.own_only) options.tune.own_executor = backend->placement.executor;
  options.tune.late_samples = backend->placement.own_only || backend->placement.device.empty();
  const bool of_another = options.tune.target.has_value();
  if (backend->target && !of_another) {
    auto target = backend->target(options.tune.threads, exec::libraries(), options.device);
    if (!target.ok()) return not_here(std::move(target).error(), *backend, options.device);
    options.tune.target = *std::move(target);
  }
  measured = backend->measured && !(of_another && backend->target);
  if (!measured) options.tune.measure = options.tune.verify = false;
  PERI_TRY(check_provider(options.tune.provider, *backend, options.tune.target));
  if (of_another && (options.tune.measure || options.tune.verify))
    return usage("a plan for another target is neither measured nor verified on this machine")
        .advise("build with a lock, or without tuning");
  tuner = std::make_unique<tune::Tuner>(options.tune);  // whose worker makes its device ready meanwhile
  const bool on_device = !backend->placement.device.empty();
  precision = precision_of(imported.graph, on_device, options.dtype);  // of the model's own inputs
  own_narrow = options.dtype == DType::kInvalid && is_narrow_model(imported.graph, on_device);
  if (options.io_dtype != DType::kInvalid) PERI_TRY(set_interface_types(imported.graph, options.io_dtype));
  if (options.admits) PERI_TRY(options.admits(imported.graph));
  before = imported.graph.clone();
  made_of = locked_model(before);
  const int64_t start = now_ns();
  // What a device's kernels read lies in its memory as their regions state it; only the host widens.
  if (on_device) {
    if (backend->narrow_values && kernels::is_narrow_float(precision.weights) && (precision.rounds || own_narrow))
      precision.values = precision.weights;
    precision.weights = DType::kF32;
  }
  PERI_ASSIGN(passes,
              peri::passes::run_pipeline(imported.graph, {options.disabled_passes, options.dump_dir, {}, precision}));
  passes_seconds = seconds_since(start);
  for (const auto& v : imported.graph.values())
    if (v->type.shape &&
        (product(*v->type.shape) * Dim(64)).is_poison())  // elements of 8 bytes, and steps of 8 of them
      return unsupported("the size of '%s' passes 64 bits, or is a product of too many sums", v->name.c_str())
          .advise("check the sizes that the model computes for it");
  PERI_ASSIGN(sizes, build_sizes(imported.graph, options));
  return Ok{};
}

namespace {
Error refuse_placement(const std::vector<lower::HostRegion>& on_host, const std::string& device) {
  constexpr size_t kShown = 4;  // names in a message
  std::string list;
  for (size_t k = 0; k < std::min(on_host.size(), kShown); ++k)
    list += (k ? "; '" : "'") + on_host[k].name + "' (" + on_host[k].reason + ")";
  if (on_host.size() > kShown) list += format("; and %zu more", on_host.size() - kShown);
  return refused("%zu step%s would run on the host", on_host.size(), on_host.size() == 1 ? "" : "s")
      .at_node(on_host[0].name)
      .expecting("every step on " + device)
      .but_found(list)
      .advise("build without --strict-placement, which adds copies for them");
}
}  // namespace

// Where the time of tuning went, for the log: the slowest kernels by their samples.
static std::string time_text(const tune::Tuner::Stats& s) {
  std::vector<std::pair<double, std::string>> slow;
  for (const auto& [name, kernel] : s.kernels) slow.emplace_back(kernel.sample_seconds, name);
  std::sort(slow.rbegin(), slow.rend());
  std::string kernels;
  constexpr size_t kShown = 5;  // kernels in a line of the log
  for (size_t k = 0; k < std::min(slow.size(), kShown) && slow[k].first > 0.05; ++k)
    kernels += format("; %s %.2f s", slow[k].second.c_str(), slow[k].first);
  return format("tuned in %.2f s: samples %.2f s (%s%s); trials %.2f s (%s)", s.seconds, s.sample_seconds,
                s.samples_spent.text().c_str(), kernels.c_str(), s.trials_spent.sum(), s.trials_spent.text().c_str());
}

// The chip of a device that stands behind the host's in the target: "CPU with NVIDIA H200 (132 multiprocessors)".
static std::string chip_of(const device::Target& target) {
  constexpr std::string_view kWith = " with ";
  const size_t at = target.chip.find(kWith);
  return target.multiprocessors == 0 || at == std::string::npos ? "" : target.chip.substr(at + kWith.size());
}

Result<Compiled> Compilation::State::lower(const lower::RefusedChoices& refused, bool silent) {
  Compiled out;
  const int64_t start = now_ns();
  PERI_ASSIGN(auto lowered, lower::lower_graph(imported.graph, *backend, *tuner,
                                               {at_least_one(sizes.tuned_for), at_least_one(sizes.bounds),
                                                options.lock ? &*options.lock : nullptr, refused,
                                                silent ? nullptr : options.progress, options.affords}));
  tune_seconds += seconds_since(start);
  out.tune_seconds = tune_seconds;
  if (imported.check_files) PERI_TRY(imported.check_files());
  out.import_seconds = import_seconds;
  out.passes_seconds = passes_seconds;
  out.passes = passes;
  out.bounds = sizes.bounds;
  out.notes = imported.notes;
  out.import_notes = std::ssize(out.notes);
  out.program = std::move(lowered.program);
  for (const auto& [name, value] : sizes.tuned_for) out.program.tuned_for[name] = value;
  out.program.at_least = {sizes.at_least.begin(), sizes.at_least.end()};
  out.program.at_most = {sizes.at_most.begin(), sizes.at_most.end()};
  out.weights = std::move(lowered.weights);
  out.steps = std::move(lowered.steps);
  out.on_host = std::move(lowered.on_host);
  if (options.strict_placement && !out.on_host.empty()) return refuse_placement(out.on_host, backend->placement.device);
  out.predicted_ms = lowered.predicted_ms;
  out.conversion_ms = lowered.conversion_ms;
  out.tuned = tuner->stats();
  for (std::string& note : notes_of(*backend, measured)) out.notes.push_back(std::move(note));
  if (backend->target && backend->narrow_values && options.dtype == DType::kInvalid && !own_narrow)
    out.notes.push_back("values and weights are float32; --dtype f16 keeps them in 16 bits, with sums in float32");
  if (options.log && out.tuned.problems > 0) options.log(time_text(out.tuned));
  if (!out.tuned.cache_trouble.empty()) out.notes.push_back(out.tuned.cache_trouble);
  if (!out.tuned.worker && !options.tune.worker.empty())
    out.notes.push_back("candidates were tried in this process, which a crash would end: " + out.tuned.worker_trouble);
  out.lock = lock_of(options, made_of, out);
  if (options.lock)
    if (std::string note = other_model_note(options.lock->model, made_of); !note.empty())
      out.notes.push_back(std::move(note));
  out.program.builder = options.builder;
  const DType stored = kernels::is_narrow_float(precision.values) ? precision.values : precision.weights;
  if ((precision.rounds || own_narrow) && kernels::is_narrow_float(stored)) out.program.precision = stored;
  out.program.sections.push_back({"source", ir::print(imported.graph)});
  out.program.sections.push_back({std::string(plan::kIdentitySection), made_of.identity});
  if (out.program.devices.size() > 1 && options.tune.target)
    if (const std::string chip = chip_of(*options.tune.target); !chip.empty())
      out.program.sections.push_back({std::string(plan::kChipSection), chip});
  for (const plan::Section& section : imported.sections) out.program.sections.push_back(section);
  return out;
}

Result<Compiled> compile(Options options) {
  PERI_ASSIGN(const auto compilation, Compilation::start(std::move(options)));
  return compilation->lower();
}

}  // namespace peri::compile
