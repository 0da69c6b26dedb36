// One run: allocates data-dependent sizes and runs the steps.
#include <algorithm>
#include <cstring>

#include "base/fault.hpp"
#include "base/plural.hpp"
#include "runtime/session_state.hpp"

namespace peri::runtime {

Session::Session() : state_(std::make_unique<State>()) {}
Session::~Session() { (void)state_->finish(); }
const Engine& Session::engine() const { return *state_->engine; }
const DimBinding& Session::binding() const {
  static const DimBinding kNone;
  return state_->data_dependent ? state_->run_binding : state_->now ? state_->now->binding : kNone;
}
void Session::set_step_hook(StepHook hook) { state_->hook = std::move(hook); }
int64_t Session::arena_bytes() const { return state_->now ? state_->now->arena_plan.arena_bytes : 0; }
int64_t Session::captures() const { return state_->devices.captures; }
int64_t Session::shapes_bound() const { return state_->shapes_bound; }
void Session::place(Placement placement) {
  (void)state_->finish();
  if (state_->how != placement) state_->now = nullptr;
  state_->how = placement;
}
void Session::order(TaskOrder order) { state_->order = order; }

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Engine> engine, int threads) {
  const int wanted = threads > 0 ? threads : engine->options().threads;
  PERI_ASSIGN(std::unique_ptr<Session> session, create_body(std::move(engine)));
  State& s = *session->state_;
  s.own_pool = std::make_unique<ThreadPool>(wanted);
  s.pool = s.own_pool.get();
  return session;
}

void Session::use_pool(ThreadPool* pool) { state_->pool = pool; }

Result<std::unique_ptr<Session>> Session::create_body(std::shared_ptr<const Engine> engine) {
  std::unique_ptr<Session> session(new Session());
  State& s = *session->state_;
  s.engine = std::move(engine);
  const plan::Program& p = s.program();
  s.weights.resize(p.buffers.size());
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    if (p.buffers[k].kind != plan::BufferKind::kWeight) continue;
    PERI_ASSIGN(s.weights[k], s.engine->weight(static_cast<size_t>(p.buffers[k].weight)));
  }
  for (const plan::Step& step : p.steps) s.data_dependent |= !step.binds.empty();
  s.strings.resize(p.buffers.size());
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (p.buffers[k].dtype == DType::kString) s.strings[k] = std::make_unique<std::vector<std::string>>();
  PERI_TRY(s.devices.open(*s.engine));
  return session;
}

// Where an alias whose size became known while running begins in what it aliases.
Result<int64_t> Session::State::alias_offset(int32_t buffer) const {
  const plan::Buffer& x = program().buffers[static_cast<size_t>(buffer)];
  const auto& own = sizes().buffers[static_cast<size_t>(buffer)];
  const auto size = [&](int32_t expression) { return sizes().table.eval(expression, run_values); };
  PERI_ASSIGN(const int64_t offset, size(own.alias_offset));
  PERI_ASSIGN(const int64_t bytes, size(own.bytes));
  PERI_ASSIGN(const int64_t base, size(sizes().buffers[static_cast<size_t>(x.alias_of)].bytes));
  if (offset < 0)
    return invalid("a reshape changes the number of elements")
        .expecting(std::to_string(base * 8 / dtype_bits(x.dtype)))
        .but_found(std::to_string(bytes * 8 / dtype_bits(x.dtype)))
        .at_node(x.name)
        .advise("give inputs whose sizes fit each other");
  if (bytes < 0 || offset > base || bytes > base - offset || offset % x.alignment)
    return invalid("an alias reaches outside its buffer");
  return offset;
}

// Memory of a buffer whose size became known while running.
Result<void*> Session::State::place(int32_t buffer) {
  const plan::Program& p = program();
  std::vector<void*>& pointers = now->pointers;
  const auto size = [&](int32_t expression) { return sizes().table.eval(expression, run_values); };
  const int32_t owner = plan::storage_of(p, buffer);
  const plan::Buffer& b = p.buffers[static_cast<size_t>(owner)];
  if (b.dtype == DType::kString) return pointers[static_cast<size_t>(owner)];  // ours, or the caller's input
  if (!pointers[static_cast<size_t>(owner)]) {
    PERI_ASSIGN(const int64_t bytes, size(sizes().buffers[static_cast<size_t>(owner)].bytes));
    if (bytes < 0 || bytes > plan::kMaxBufferBytes)
      return Error(ErrorKind::kMemory,
                   format("a data-dependent buffer would take %lld bytes", static_cast<long long>(bytes)))
          .at_node(b.name);
    PERI_TRY(pooled[static_cast<size_t>(owner)].reserve(static_cast<size_t>(std::max<int64_t>(bytes, 1)), options()));
    pointers[static_cast<size_t>(owner)] = pooled[static_cast<size_t>(owner)].data.get();
  }
  std::vector<int32_t> chain;  // aliases without a place, outermost last
  for (int32_t at = buffer; !pointers[static_cast<size_t>(at)]; at = p.buffers[static_cast<size_t>(at)].alias_of)
    chain.push_back(at);
  for (; !chain.empty(); chain.pop_back()) {
    const plan::Buffer& x = p.buffers[static_cast<size_t>(chain.back())];
    PERI_ASSIGN(const int64_t offset, alias_offset(chain.back()));
    pointers[static_cast<size_t>(chain.back())] =
        static_cast<std::byte*>(pointers[static_cast<size_t>(x.alias_of)]) + offset;
  }
  return pointers[static_cast<size_t>(buffer)];
}

Result<void*> Session::State::bind_output(size_t k, std::span<const int64_t> dims) {
  const plan::Step& step = program().steps[current];
  if (k >= step.writes.size() || step.writes[k] < 0) return internal_error("a step binds an output it does not have");
  const plan::Buffer& b = program().buffers[static_cast<size_t>(step.writes[k])];
  if (b.shape.size() != dims.size()) return invalid("a data-dependent output has another rank").at_node(step.name);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (b.shape[axis].is_symbol() &&
        std::find(step.binds.begin(), step.binds.end(), b.shape[axis].symbol_name()) != step.binds.end() &&
        run_binding.emplace(b.shape[axis].symbol_name(), dims[axis]).second)
      run_values[static_cast<size_t>(sizes().table.find(b.shape[axis].symbol_name()))] = dims[axis];
    PERI_ASSIGN(const int64_t want, b.shape[axis].eval(run_binding));
    if (want != dims[axis] || want < 0)
      return invalid("a data-dependent output does not fit its shape")
          .at_node(step.name)
          .expecting(std::to_string(want))
          .but_found(std::to_string(dims[axis]));
  }
  PERI_ASSIGN(void* p, place(step.writes[k]));
  now->writes[current][k] = p;
  return p;
}

Status Session::State::refresh_arguments(size_t k) {
  const plan::Step& step = program().steps[k];
  for (size_t j = 0; j < step.reads.size(); ++j) {
    if (step.reads[j] < 0) continue;
    PERI_ASSIGN(void* p, place(step.reads[j]));
    now->reads[k][j] = p;
  }
  for (size_t j = 0; j < step.writes.size(); ++j) {
    if (step.writes[j] < 0) continue;
    if (!sizes().table.bound(sizes().buffers[static_cast<size_t>(step.writes[j])].bytes, run_values)) continue;
    PERI_ASSIGN(now->writes[k][j], place(step.writes[j]));
  }
  return Ok{};
}

Status Session::State::run_step(size_t k) {
  PERI_TRY(check_stop(k));
  std::shared_ptr<const Instance> instance = now->instances[k];
  current = k;
  const auto& left = engine->options().steps_left;
  if (left && left->fetch_sub(1) <= 0)
    return refused("the run's budget of steps is spent").at_node(program().steps[k].name);
  if (data_dependent) {
    PERI_TRY(refresh_arguments(k));
    if (!instance) {
      PERI_ASSIGN(instance, engine->instance(k, run_values));
      PERI_TRY(scratch.reserve(scratch_places(*instance).bytes + 64, options()));
    }
  }
  const ScratchPlaces places = scratch_places(*instance);
  if (guards()) guard_scratch(places);
  if (hook) hook(k, true);
  Status done = contained([&] { return instance->run(context_of(k, places)); });
  if (guards() && done.ok()) done = check_guards(k);
  if (guards() && done.ok()) done = check_scratch(places);
  if (hook) hook(k, false);
  if (!done.ok()) return std::move(done).error().at_node(program().steps[k].name);
  return Ok{};
}

RunContext Session::State::context_of(size_t k, const ScratchPlaces& places) {
  RunContext c;
  c.reads = now->reads[k];
  c.writes = now->writes[k];
  c.shared = scratch.data.get() + places.shared;
  c.each = scratch.data.get() + places.each;
  c.stride = places.stride;
  c.pool = pool;
  c.order = order;
  c.binding = data_dependent ? &run_binding : &now->binding;
  c.binder = this;
  return c;
}

Status Session::repeat(size_t step) {
  State& s = *state_;
  const Instance& instance = *s.now->instances[step];
  return contained([&] { return instance.run(s.context_of(step, s.scratch_places(instance))); });
}

// Aliases of what was just placed, an alias stands after what it aliases; then the arguments of all steps.
void Session::State::point_steps() {
  const plan::Program& p = program();
  std::vector<void*>& pointers = now->pointers;
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    if (p.buffers[k].alias_of < 0 || now->taking[k] || now->arena_plan.bytes[k] == plan::kUnbound) continue;
    void* base = pointers[static_cast<size_t>(p.buffers[k].alias_of)];
    pointers[k] = base ? static_cast<std::byte*>(base) + now->shift[k] : nullptr;
  }
  const auto of = [&](int32_t b) { return b < 0 ? nullptr : pointers[static_cast<size_t>(b)]; };
  for (size_t k = 0; k < p.steps.size(); ++k) {
    std::transform(p.steps[k].reads.begin(), p.steps[k].reads.end(), now->reads[k].begin(), of);
    std::transform(p.steps[k].writes.begin(), p.steps[k].writes.end(), now->writes[k].begin(), of);
  }
}

// What an earlier run bound and placed by its data is forgotten.
void Session::State::begin_run() {
  if (!data_dependent) return;
  const plan::Program& p = program();
  run_binding = now->binding;
  run_values = now->values;
  pooled.resize(p.buffers.size());
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (now->arena_plan.bytes[k] == plan::kUnbound && p.buffers[k].dtype != DType::kString) now->pointers[k] = nullptr;
  for (size_t k = 0; k < now->addresses.size(); ++k) {  // and what shares the memory of such a one
    const int32_t base = p.buffers[k].alias_of;
    if (now->arena_plan.bytes[k] == plan::kUnbound ||
        (base >= 0 && static_cast<size_t>(base) < k && !now->addresses[static_cast<size_t>(base)].value))
      now->addresses[k] = {};
  }
}

Status Session::State::run_given(std::span<const View> given, std::vector<Tensor>* outs) {
  const plan::Program& p = program();
  PERI_TRY(finish());
  if (given_inputs.size() != p.inputs.size())
    return usage("%s given, the engine has %zu", counted(std::ssize(given_inputs), "input").c_str(), p.inputs.size());
  for (size_t k = 0; k < given_inputs.size(); ++k)
    if (given_inputs[k].dtype != p.inputs[k].dtype)
      return usage("wrong element type")
          .at_node(p.inputs[k].name)
          .expecting(std::string(dtype_name(p.inputs[k].dtype)))
          .but_found(std::string(dtype_name(given_inputs[k].dtype)));
  const auto of = [&](size_t k) -> const std::vector<int64_t>& { return *given_inputs[k].dims; };
  PERI_ASSIGN(const bool there, return_to(given_inputs.size(), of));
  if (!there) {
    std::vector<std::vector<int64_t>> dims;
    for (const GivenInput& x : given_inputs) dims.push_back(*x.dims);
    PERI_TRY(prepare_for(dims));
  }
  bind_inputs();
  begin_run();
  waits = true;
  PERI_TRY(place_outputs(given, outs));
  point_steps();
  if (devices.empty())
    for (size_t k = 0; k < p.steps.size(); ++k) PERI_TRY(run_step(k));
  else
    PERI_TRY(run_on_devices());
  for (size_t k = 0; k < now->guards.size(); ++k) PERI_TRY(check_guard(k));
  return collect_outputs(given, outs);
}

Status Session::prepare(const std::vector<std::vector<int64_t>>& input_dims) {
  State& s = *state_;
  const auto of = [&](size_t k) -> const std::vector<int64_t>& { return input_dims[k]; };
  if (s.devices.under_way && s.now && s.is_for(*s.now, input_dims.size(), of)) return Ok{};  // runs go on
  PERI_TRY(s.finish());
  return s.prepare_for(input_dims);
}

Result<std::span<std::byte>> Session::memory_of(int32_t buffer) {
  State& s = *state_;
  const size_t k = static_cast<size_t>(buffer);
  if (!s.now || !s.now->pointers[k] || s.program().buffers[k].dtype == DType::kString)
    return internal_error("buffer %d has no memory", buffer);
  PERI_ASSIGN(const int64_t bytes, s.sizes().table.eval(s.sizes().buffers[k].bytes, s.values()));
  return std::span<std::byte>(static_cast<std::byte*>(s.now->pointers[k]), static_cast<size_t>(bytes));
}

Result<Tensor> Session::buffer_contents(int32_t buffer) const {
  const State& s = *state_;
  const size_t k = static_cast<size_t>(buffer);
  const plan::Buffer& b = s.program().buffers[k];
  const bool away = b.device != plan::kHost;
  const void* from = s.now && !away ? s.now->pointers[k] : nullptr;
  const device::Address at = s.now && away ? s.now->addresses[k] : device::Address{};
  if (!from && !at.value) return internal_error("buffer %d has no memory", buffer);
  PERI_ASSIGN(std::vector<int64_t> dims, eval(b.shape, binding()));
  if (b.dtype == DType::kString) return Tensor::strings(dims, *static_cast<const std::vector<std::string>*>(from));
  if (b.layout.find('x') != std::string::npos) {  // a blocked axis is padded: all of its bytes, as one row
    PERI_ASSIGN(const int64_t bytes, s.sizes().table.eval(s.sizes().buffers[k].bytes, s.values()));
    dims = {bytes * 8 / dtype_bits(b.dtype)};
  }
  PERI_ASSIGN(Tensor t, Tensor::zeros(b.dtype, dims));
  if (!t.bytes().empty() && away)
    PERI_TRY(state_->devices.lanes[b.device].read({t.mutable_data(), t.bytes().size()}, at));
  else if (!t.bytes().empty())
    std::memcpy(t.mutable_data(), from, t.bytes().size());
  return t;
}

}  // namespace peri::runtime
