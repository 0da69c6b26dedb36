// Loading: checks, executors, variants, prepared steps, and the cache of instances.
#include "runtime/engine.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <set>

#include "base/fault.hpp"
#include "device/memory_info.hpp"
#include "plan/iterations.hpp"
#include "plan/sizes.hpp"
#include "runtime/engine_devices.hpp"
#include "runtime/step_share.hpp"

namespace peri::runtime {

namespace {
// As many as a session keeps shapes; the least recently used goes first. Sessions hold those of their own shapes.
constexpr size_t kInstancesPerStep = Session::kKeptShapes;

struct Slot {
  std::vector<int64_t> key;
  std::shared_ptr<const Instance> instance;
  bool ready = false;
  std::optional<Error> error;
};

// One way to do a step, prepared on first use.
struct VariantState {
  std::unique_ptr<Prepared> prepared;
  bool preparing = false;
};

// A step with its recent instances. The mutex guards the lists; it is never held while anything is made.
struct StepState {
  std::vector<size_t> dims;        // indexes of the dimensions its instances depend on
  std::vector<std::string> names;  // of these
  std::mutex mutex;
  std::condition_variable made;
  std::vector<VariantState> variants;
  std::list<std::shared_ptr<Slot>> slots;  // most recently used first
};
}  // namespace

struct Engine::State {
  plan::Program program;
  WeightSource weights;
  EngineOptions options;
  std::vector<const Executor*> executors;
  EngineDevices devices;  // outlives what steps keep there
  std::vector<std::unique_ptr<StepState>> steps;
  plan::ProgramSizes sizes;
  std::atomic<int64_t> made = 0;
  uint64_t id = 0;

  Result<Prepared*> prepared(const Engine& engine, size_t step, size_t variant);
};

int64_t EngineOptions::memory_limit() const {
  if (memory_bytes > 0) return memory_bytes;
  static const int64_t machine = [] {  // asked once: each step of an engine wants to know
    const int64_t bytes = device::host_memory().total_bytes;
    return bytes > 0 ? bytes : INT64_MAX;
  }();
  return machine;
}

WeightSource mapped_weights(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file) {
  const size_t first = static_cast<size_t>(bytes.data() - file->data());
  return {bytes, file, [file, first](uint64_t offset, uint64_t n) { file->drop(first + offset, n); }};
}

Engine::Engine() : state_(std::make_unique<State>()) {}
Engine::~Engine() = default;
const plan::Program& Engine::program() const { return state_->program; }
const EngineOptions& Engine::options() const { return state_->options; }
uint64_t Engine::id() const { return state_->id; }
const plan::ProgramSizes& Engine::sizes() const { return state_->sizes; }
device::Device* Engine::device(uint32_t index) const { return state_->devices.at(index); }
device::Address Engine::device_weight(size_t buffer) const { return state_->devices.weight(buffer); }
Status Engine::bring_weights(std::span<const std::shared_ptr<const Instance>> instances) const {
  return state_->devices.bring(*this, instances);
}
Result<std::vector<int64_t>> Engine::weights_to_bring(
    std::span<const std::shared_ptr<const Instance>> instances) const {
  return state_->devices.to_bring(*this, instances);
}
int64_t Engine::instances_made() const { return state_->made; }

Result<Tensor> Engine::weight(size_t index) const {
  const plan::Weight& w = state_->program.weights[index];
  if (!state_->weights.tensors.empty()) return state_->weights.tensors[index];
  return Tensor::view(w.dtype, w.dims, state_->weights.bytes.subspan(w.offset, w.bytes), state_->weights.keep);
}

namespace {
const Executor* find_executor(ExecutorTable table, const plan::Step& step) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const Executor* e) { return e->name == step.executor; });
  return it == table.end() ? nullptr : *it;
}

// Whether the machine fits some variant of the step, and the program has what each that fits names.
Status check_variants(const Executor& executor, const plan::Step& step, const plan::Capabilities& machine) {
  bool some = false;
  for (const plan::Variant& v : step.variants) {
    if (!plan::fits(v, machine)) continue;
    some = true;
    if (!executor.check) continue;
    if (Status s = executor.check(v); !s.ok()) return std::move(s).error().at_node(step.name);
  }
  return some ? Status(Ok{}) : plan::no_variant(step);
}

// The same for the bodies of control steps; executors that the table lacks are gathered.
Status check_bodies(const plan::Program& program, const EngineOptions& options, std::set<std::string>* missing) {
  for (const plan::Step& step : program.steps)
    for (const auto& body : step.bodies) {
      for (const plan::Step& inner : body->steps) {
        const Executor* const executor = find_executor(options.executors, inner);
        if (executor)
          PERI_TRY(check_variants(*executor, inner, options.machine));
        else
          missing->insert(inner.executor);
      }
      PERI_TRY(check_bodies(*body, options, missing));
    }
  return Ok{};
}

// The dimensions that instances of a step depend on: those of its arguments and variants, and those it states.
std::unique_ptr<StepState> state_of(const plan::Program& p, const plan::Step& step) {
  auto state = std::make_unique<StepState>();
  std::set<std::string> symbols(step.depends_on.begin(), step.depends_on.end());
  for (const auto* list : {&step.reads, &step.writes})
    for (const int32_t b : *list) {
      if (b < 0) continue;
      for (const Dim& d : p.buffers[static_cast<size_t>(b)].shape) d.collect_symbols(symbols);
    }
  for (const plan::Variant& v : step.variants)
    for (const auto& [expression, value] : v.holds_for) expression.collect_symbols(symbols);
  for (size_t k = 0; k < p.dims.size(); ++k) {
    if (!symbols.contains(p.dims[k])) continue;
    state->dims.push_back(k);
    state->names.push_back(p.dims[k]);
  }
  state->variants.resize(step.variants.size());
  return state;
}

// Whether an executor can do a step as it stands.
Status check_executor(const Executor& executor, const plan::Program& program, const plan::Step& step) {
  if (executor.payload_version != step.payload_version)
    return refused("step '%s' has payload version %u of executor '%s'", step.name.c_str(), step.payload_version,
                   step.executor.c_str())
        .expecting(std::to_string(executor.payload_version))
        .advise("build the engine again with this version");
  const std::string& device = program.devices[step.device];
  if (!executor.device.empty() && executor.device != device)
    return refused("executor '%s' does not run on device '%s'", step.executor.c_str(), device.c_str())
        .at_node(step.name)
        .expecting(executor.device);
  return Ok{};
}
}  // namespace

Result<std::shared_ptr<const Engine>> Engine::create(plan::Program program, WeightSource weights,
                                                     EngineOptions options) {
  const bool apart = !weights.tensors.empty();
  if (apart) {
    if (weights.tensors.size() != program.weights.size())
      return invalid("%zu tensors for %zu weights", weights.tensors.size(), program.weights.size());
    for (size_t k = 0; k < program.weights.size(); ++k)
      if (const Tensor& t = weights.tensors[k];
          t.dtype() != program.weights[k].dtype || t.dims() != program.weights[k].dims)
        return invalid("a tensor differs from its weight").at_node("weight '" + program.weights[k].name + "'");
  }
  if (!weights.checked) PERI_TRY(plan::check_program(program, apart ? UINT64_MAX : weights.bytes.size()));
  static std::atomic<uint64_t> next_id{1};
  std::shared_ptr<Engine> engine(new Engine());
  State& s = *engine->state_;
  s.id = next_id++;
  s.program = std::move(program);
  s.weights = std::move(weights);
  s.options = std::move(options);
  if (s.options.max_iterations == 0) {
    PERI_ASSIGN(const int64_t limit, plan::iterations_of(s.program));
    s.options.max_iterations = limit > 0 ? limit : plan::kMaxIterations;
  }
  if (!s.options.share) s.options.share = std::make_shared<StepShare>();
  std::set<std::string> missing;
  for (const plan::Step& step : s.program.steps) {
    const Executor* const executor = find_executor(s.options.executors, step);
    if (!executor) {
      missing.insert(step.executor);
      continue;
    }
    PERI_TRY(check_executor(*executor, s.program, step));
    PERI_TRY(check_variants(*executor, step, s.options.machine));
    s.executors.push_back(executor);
    s.steps.push_back(state_of(s.program, step));
  }
  PERI_TRY(check_bodies(s.program, s.options, &missing));
  if (!missing.empty()) {
    std::string names;
    for (const std::string& m : missing) names += (names.empty() ? "'" : ", '") + m + "'";
    return refused("the engine needs executors that this binary does not have: %s", names.c_str())
        .advise("use a build of peri that has them, or build the engine again");
  }
  s.sizes = plan::compile_sizes(s.program);
  PERI_TRY(s.devices.open(*engine));
  return std::shared_ptr<const Engine>(std::move(engine));
}

namespace {
Result<std::unique_ptr<Prepared>> prepare_step(const Engine& engine, const WeightSource& source,
                                               const Executor& executor, const plan::Step& step,
                                               const plan::Variant& variant, std::vector<std::string> dims) {
  PrepareContext context;
  context.program = &engine.program();
  context.step = &step;
  context.variant = &variant;
  context.device = engine.device(step.device);
  context.dims = std::move(dims);
  context.threads = engine.options().threads;
  context.options = &engine.options();
  context.source = &source;
  for (int32_t b : step.reads) {
    Tensor t;
    if (b >= 0 && engine.program().buffers[static_cast<size_t>(b)].kind == plan::BufferKind::kWeight) {
      PERI_ASSIGN(t, engine.weight(static_cast<size_t>(engine.program().buffers[static_cast<size_t>(b)].weight)));
    }
    context.weights.push_back(std::move(t));
  }
  if (source.drop_pages)
    context.drop_weight = [drop = source.drop_pages, program = &engine.program(), &step](size_t k) {
      const plan::Weight& w =
          program->weights[static_cast<size_t>(program->buffers[static_cast<size_t>(step.reads[k])].weight)];
      drop(w.offset, w.bytes);
    };
  auto prepared = contained([&] { return executor.prepare(context); });
  if (!prepared.ok()) return std::move(prepared).error().at_node(step.name);
  return prepared;
}
}  // namespace

// The first who asks prepares, others wait for it; after a failure the next one tries again.
Result<Prepared*> Engine::State::prepared(const Engine& engine, size_t k, size_t variant) {
  StepState& step = *steps[k];
  VariantState& v = step.variants[variant];
  {
    std::unique_lock<std::mutex> lock(step.mutex);
    step.made.wait(lock, [&] { return !v.preparing; });
    if (v.prepared) return v.prepared.get();
    v.preparing = true;
  }
  auto fresh = contained([&] {
    const plan::Step& s = program.steps[k];
    return prepare_step(engine, weights, *executors[k], s, s.variants[variant], step.names);
  });
  const std::lock_guard<std::mutex> lock(step.mutex);
  v.preparing = false;
  step.made.notify_all();
  if (!fresh.ok()) return std::move(fresh).error();
  v.prepared = std::move(fresh).value();
  return v.prepared.get();
}

Status Instance::run(const RunContext&) const { return internal_error("a step of a device is run on the host"); }
Status Instance::enqueue(const EnqueueContext&) const {
  return internal_error("a step of the host is enqueued on a device");
}

Error Instance::fault(int32_t word) const { return internal_error("a step left the word %d on its device", word); }

Result<std::shared_ptr<const Instance>> Engine::instance(size_t k, std::span<const int64_t> values) const {
  State& s = *state_;
  StepState& step = *s.steps[k];
  const auto is_for = [&](const std::shared_ptr<Slot>& slot) {
    for (size_t i = 0; i < step.dims.size(); ++i)
      if (slot->key[i] != values[step.dims[i]]) return false;
    return true;
  };
  const auto answer = [&](const Slot& slot) -> Result<std::shared_ptr<const Instance>> {
    if (slot.error) return Error(*slot.error).at_node(s.program.steps[k].name);
    return slot.instance;
  };
  auto slot = std::make_shared<Slot>();
  {
    std::unique_lock<std::mutex> lock(step.mutex);
    const auto it = std::find_if(step.slots.begin(), step.slots.end(), is_for);
    if (it != step.slots.end()) {
      slot = *it;
      step.slots.splice(step.slots.begin(), step.slots, it);
      step.made.wait(lock, [&] { return slot->ready; });
      return answer(*slot);
    }
    for (const size_t dim : step.dims) slot->key.push_back(values[dim]);
    step.slots.push_front(slot);
    // The oldest goes; one that is being made stays, since others may come to wait for it.
    if (step.slots.size() > kInstancesPerStep) {
      const auto oldest = std::find_if(step.slots.rbegin(), step.slots.rend(), [](const auto& p) { return p->ready; });
      if (oldest != step.slots.rend()) step.slots.erase(std::next(oldest).base());
    }
  }
  auto made = contained([&]() -> Result<std::shared_ptr<const Instance>> {
    PERI_ASSIGN(const size_t variant, plan::choose_variant(s.program, s.sizes, k, s.options.machine, values));
    PERI_ASSIGN(Prepared * prepared, s.prepared(*this, k, variant));
    DimBinding binding;  // no more than what the instance is found by
    for (size_t i = 0; i < step.dims.size(); ++i)
      if (values[step.dims[i]] != kNoSize) binding.emplace(step.names[i], values[step.dims[i]]);
    PERI_ASSIGN(auto instance, prepared->instantiate(binding));
    return std::shared_ptr<const Instance>(std::move(instance));
  });
  const std::lock_guard<std::mutex> lock(step.mutex);
  if (made.ok()) {
    slot->instance = std::move(made).value();
    ++s.made;
  } else {
    slot->error = std::move(made).error();
    step.slots.remove(slot);
  }
  slot->ready = true;  // others wait for it: nothing before this line may throw
  step.made.notify_all();
  return answer(*slot);
}

}  // namespace peri::runtime
