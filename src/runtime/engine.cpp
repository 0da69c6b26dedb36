// Loading: checks, executors, variants, prepared steps, and the cache of instances.
#include "runtime/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <set>

#include "base/fault.hpp"

namespace peri::runtime {

namespace {
constexpr size_t kInstancesPerStep = 8;  // shapes kept for each step; the least recently used goes first

struct Slot {
  std::string key;
  std::shared_ptr<const Instance> instance;
  bool ready = false;
  std::optional<Error> error;
};

// The prepared step with its recent instances.
struct StepState {
  std::vector<std::pair<const plan::Variant*, std::unique_ptr<Prepared>>> prepared;  // made on first use of a variant
  std::set<std::string> symbols;  // dimensions its arguments depend on
  std::mutex mutex;
  std::condition_variable made;
  std::list<std::shared_ptr<Slot>> slots;
};
}  // namespace

struct Engine::State {
  plan::Program program;
  WeightSource weights;
  EngineOptions options;
  std::vector<const Executor*> executors;
  std::vector<std::unique_ptr<StepState>> steps;
  uint64_t id = 0;
};

int64_t EngineOptions::memory_limit() const {
  if (memory_bytes > 0) return memory_bytes;
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? pages * page : INT64_MAX;
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

Result<Tensor> Engine::weight(size_t index) const {
  const plan::Weight& w = state_->program.weights[index];
  if (!state_->weights.tensors.empty()) return state_->weights.tensors[index];
  return Tensor::view(w.dtype, w.dims, state_->weights.bytes.subspan(w.offset, w.bytes), state_->weights.keep);
}

namespace {
// Executors that the bodies of control steps need and the table lacks.
void missing_in_bodies(const plan::Program& program, ExecutorTable table, std::set<std::string>* missing) {
  for (const plan::Step& step : program.steps) {
    for (const auto& body : step.bodies) {
      for (const plan::Step& inner : body->steps)
        if (std::none_of(table.begin(), table.end(), [&](const Executor* e) { return e->name == inner.executor; }))
          missing->insert(inner.executor);
      missing_in_bodies(*body, table, missing);
    }
  }
}

// Dimensions that a payload may depend on though no argument of its step does: a region may compute with sizes. A name
// that only happens to stand in the text costs an instance more, no more.
void named_in(const std::string& payload, const std::vector<std::string>& dims, std::set<std::string>* symbols) {
  constexpr size_t kSearched = 64;
  for (const std::string& name : dims)
    if (dims.size() > kSearched || payload.find(name) != std::string::npos) symbols->insert(name);
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
  PERI_TRY(plan::check_program(program, apart ? UINT64_MAX : weights.bytes.size()));
  static std::atomic<uint64_t> next_id{1};
  std::shared_ptr<Engine> engine(new Engine());
  State& s = *engine->state_;
  s.id = next_id++;
  s.program = std::move(program);
  s.weights = std::move(weights);
  s.options = std::move(options);
  std::set<std::string> missing;
  missing_in_bodies(s.program, s.options.executors, &missing);
  for (const plan::Step& step : s.program.steps) {
    auto it = std::find_if(s.options.executors.begin(), s.options.executors.end(),
                           [&](const Executor* e) { return e->name == step.executor; });
    if (it == s.options.executors.end()) {
      missing.insert(step.executor);
      continue;
    }
    if ((*it)->payload_version != step.payload_version)
      return refused("step '%s' has payload version %u of executor '%s'", step.name.c_str(), step.payload_version,
                     step.executor.c_str())
          .expecting(std::to_string((*it)->payload_version))
          .advise("build the engine again with this version");
    s.executors.push_back(*it);
    auto state = std::make_unique<StepState>();
    auto collect = [&](int32_t b) {
      if (b < 0) return;
      for (const Dim& d : s.program.buffers[static_cast<size_t>(b)].shape) d.collect_symbols(state->symbols);
    };
    for (int32_t b : step.reads) collect(b);
    for (int32_t b : step.writes) collect(b);
    for (const plan::Variant& v : step.variants) {
      for (const auto& [expression, value] : v.holds_for) expression.collect_symbols(state->symbols);
      named_in(v.payload, s.program.dims, &state->symbols);
    }
    s.steps.push_back(std::move(state));
  }
  if (!missing.empty()) {
    std::string names;
    for (const std::string& m : missing) names += (names.empty() ? "'" : ", '") + m + "'";
    return refused("the engine needs executors that this binary does not have: %s", names.c_str())
        .advise("use a build of peri that has them, or build the engine again");
  }
  return std::shared_ptr<const Engine>(std::move(engine));
}

namespace {
Result<std::unique_ptr<Prepared>> prepare_step(const Engine& engine, const WeightSource& source,
                                               const Executor& executor, const plan::Step& step,
                                               const plan::Variant& variant) {
  PrepareContext context;
  context.program = &engine.program();
  context.step = &step;
  context.variant = &variant;
  context.threads = engine.options().threads;
  context.options = &engine.options();
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

Result<std::shared_ptr<const Instance>> Engine::instance(size_t k, const DimBinding& binding) const {
  State& s = *state_;
  StepState& step = *s.steps[k];
  std::string key;
  for (const std::string& name : step.symbols) {
    auto it = binding.find(name);
    key += name + "=" + (it == binding.end() ? std::string("?") : std::to_string(it->second)) + ";";
  }
  std::shared_ptr<Slot> slot;
  Prepared* prepared = nullptr;
  {
    std::unique_lock<std::mutex> lock(step.mutex);
    auto it = std::find_if(step.slots.begin(), step.slots.end(), [&](const auto& p) { return p->key == key; });
    if (it != step.slots.end()) {
      slot = *it;
      step.slots.splice(step.slots.begin(), step.slots, it);
      step.made.wait(lock, [&] { return slot->ready; });
      if (slot->error) return Error(*slot->error).at_node(s.program.steps[k].name);
      return slot->instance;
    }
    PERI_ASSIGN(const size_t chosen, plan::choose_variant(s.program.steps[k], s.options.machine, binding));
    const plan::Variant* variant = &s.program.steps[k].variants[chosen];
    for (auto& [v, p] : step.prepared)
      if (v == variant) prepared = p.get();
    if (!prepared) {
      PERI_ASSIGN(auto made, prepare_step(*this, s.weights, *s.executors[k], s.program.steps[k], *variant));
      prepared = made.get();
      step.prepared.emplace_back(variant, std::move(made));
    }
    slot = std::make_shared<Slot>();
    slot->key = key;
    step.slots.push_front(slot);
    if (step.slots.size() > kInstancesPerStep) step.slots.pop_back();
  }
  auto made = contained([&]() -> Result<std::shared_ptr<const Instance>> {
    PERI_ASSIGN(auto instance, prepared->instantiate(binding));
    return std::shared_ptr<const Instance>(std::move(instance));
  });
  std::unique_lock<std::mutex> lock(step.mutex);
  if (made.ok())
    slot->instance = std::move(made).value();
  else
    slot->error = std::move(made).error(), step.slots.remove(slot);
  slot->ready = true;  // others wait for it: nothing before this line may throw
  step.made.notify_all();
  if (slot->error) return Error(*slot->error).at_node(s.program.steps[k].name);
  return slot->instance;
}

}  // namespace peri::runtime
