// Everything that depends on the input dims only, kept between runs for the last shapes: binding, arena plan, instances
// of the steps, addresses. Returning to a shape only updates addresses of memory that has moved.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/session_state.hpp"

namespace peri::runtime {

namespace {
constexpr size_t kSlack = 64;  // vector loads of the last elements may reach beyond them
}  // namespace

// One after the other with guards between them; results that take the memory of an argument have their own.
Status Session::State::separate_memory(BoundShape* s) const {
  const plan::Program& p = program();
  for (const plan::Step& step : p.steps)
    for (size_t j = 0; j < step.shares.size() && how == Placement::kSeparate; ++j)
      if (step.shares[j] >= 0 && step.writes[j] != step.reads[static_cast<size_t>(step.shares[j])])
        s->taking[static_cast<size_t>(step.writes[j])] = true;
  s->guards.clear();
  s->guard_of.assign(p.buffers.size(), 0);
  s->work_guard.assign(p.steps.size(), 0);
  for (uint32_t d = 0; d < p.devices.size(); ++d) {
    auto& bytes = d == plan::kHost ? s->arena_plan.arena_bytes : s->arena_plan.device_bytes[d];
    PERI_ASSIGN(bytes, separate_arena(d, s));
  }
  return Ok{};
}

// The bytes that the arena of one device comes to.
Result<int64_t> Session::State::separate_arena(uint32_t device, BoundShape* s) const {
  const plan::Program& p = program();
  int64_t at = kGuardBytes;
  s->guards.push_back({0, at, device});
  // A block from `at` on, with a guard behind it: a page at least, and up to where the next begins.
  const auto place = [&](int64_t bytes) -> Status {
    PERI_ASSIGN(const int64_t end, checked_add(at, bytes, "arena"));
    PERI_ASSIGN(at, checked_add(end, 2 * kGuardBytes, "arena"));
    at = at / kGuardBytes * kGuardBytes;
    s->guards.push_back({end, at, device});
    return Ok{};
  };
  std::vector<int64_t>& offset = s->arena_plan.offset;
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const plan::Buffer& b = p.buffers[k];
    if (offset[k] == plan::kUnbound || b.device != device) continue;
    if (b.alias_of >= 0 && !s->taking[k]) {
      PERI_ASSIGN(const int64_t inside, sizes().table.eval(sizes().buffers[k].alias_offset, s->values));
      offset[k] = offset[static_cast<size_t>(b.alias_of)] + inside;
      s->guard_of[k] = s->guard_of[static_cast<size_t>(b.alias_of)];
      continue;
    }
    offset[k] = at;
    s->guard_of[k] = s->guards.size();
    PERI_TRY(place(s->arena_plan.bytes[k]));
  }
  // Steps run one after the other here: the workspaces of one size are one.
  std::map<int64_t, std::pair<int64_t, size_t>> of_size;
  for (size_t k = 0; k < s->work.bytes.size(); ++k) {
    if (p.steps[k].device != device || s->work.bytes[k] == 0) continue;
    const auto [it, fresh] = of_size.try_emplace(s->work.bytes[k], at, s->guards.size());
    if (fresh) PERI_TRY(place(s->work.bytes[k]));
    std::tie(s->work.offset[k], s->work_guard[k]) = it->second;
  }
  return at;
}

Status Session::State::fill_guards() {
  for (const Guard& g : now->guards) {
    if (g.device == plan::kHost) {
      write_guard(arena.data.get() + g.begin, arena.data.get() + g.end);
      continue;
    }
    const DeviceLanes& own = devices.lanes[g.device];
    std::vector<std::byte> whole(static_cast<size_t>(g.end - g.begin));
    write_guard(whole.data(), whole.data() + whole.size());
    PERI_TRY(own.write(own.arena.address() + static_cast<uint64_t>(g.begin), whole));
  }
  return Ok{};
}

Status Session::State::plan_places(BoundShape* s) const {
  const plan::Program& p = program();
  PERI_ASSIGN(s->arena_plan, plan::plan_arena(p, sizes(), s->values, s->work.bytes.empty() ? nullptr : &s->work));
  s->taking.assign(p.buffers.size(), false);
  return s->how == Placement::kPlanned ? Status(Ok{}) : separate_memory(s);
}

// Once the steps are made: their workspaces lie in the arenas too.
Status Session::State::plan_workspaces(BoundShape* s) const {
  const plan::Program& p = program();
  std::vector<int64_t> bytes(p.steps.size(), 0);
  for (size_t k = 0; k < bytes.size(); ++k)
    if (p.steps[k].device != plan::kHost && s->instances[k])
      bytes[k] = static_cast<int64_t>(s->instances[k]->workspace_bytes());
  if (std::all_of(bytes.begin(), bytes.end(), [](int64_t b) { return b == 0; })) return Ok{};
  s->work.bytes = std::move(bytes);
  return plan_places(s);
}

Status Session::State::plan_memory(BoundShape* s) const {
  const plan::Program& p = program();
  PERI_TRY(plan_places(s));
  s->shift.assign(p.buffers.size(), 0);
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const plan::Buffer& b = p.buffers[k];
    // One of known size in memory that data size is placed with that (place()).
    if (b.alias_of >= 0 && !s->taking[k] && s->arena_plan.bytes[k] != plan::kUnbound &&
        sizes().table.bound(sizes().buffers[k].alias_offset, s->values)) {
      PERI_ASSIGN(s->shift[k], sizes().table.eval(sizes().buffers[k].alias_offset, s->values));
    }
    if (b.kind == plan::BufferKind::kState && b.alias_of < 0 && b.dtype != DType::kString) {
      PERI_ASSIGN(std::vector<int64_t> dims, eval(b.shape, s->binding));
      s->state_dims.emplace_back(k, std::move(dims));
    }
  }
  s->pointers.assign(p.buffers.size(), nullptr);
  for (const plan::Step& step : p.steps) {
    s->reads.emplace_back(step.reads.size(), nullptr);
    s->writes.emplace_back(step.writes.size(), nullptr);
  }
  return Ok{};
}

// Instances of all steps up to the first that binds dimensions; packing of weights goes by steps over the pool.
Status Session::State::make_instances(BoundShape* s) const {
  const plan::Program& p = program();
  s->instances.assign(p.steps.size(), nullptr);
  size_t count = 0;
  while (count < p.steps.size() && p.steps[count].binds.empty()) ++count;
  if (count < p.steps.size()) ++count;
  std::mutex mutex;
  std::optional<Error> first;
  pool->run(static_cast<int64_t>(count), [&](int64_t k, int) {
    auto made = engine->instance(static_cast<size_t>(k), s->values);
    if (made.ok()) {
      s->instances[static_cast<size_t>(k)] = std::move(made).value();
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (!first) first = std::move(made).error();
  });
  if (first) return *std::move(first);
  return Ok{};
}

Status Session::State::hold(Memory* memory, size_t bytes) {
  if (!memory->data || bytes > memory->bytes) ++placement;
  return memory->reserve(bytes, options());
}

void grow_contents(const std::byte* from, std::span<const int64_t> old_dims, std::byte* to,
                   std::span<const int64_t> dims, int64_t element_bytes) {
  const size_t rank = dims.size();
  int64_t rows = 1, total = element_bytes;
  for (size_t k = 0; k + 1 < rank; ++k) rows *= old_dims[k];
  for (const int64_t d : dims) total *= d;
  const int64_t row = (rank ? old_dims[rank - 1] : 1) * element_bytes;
  int64_t behind = total;  // all from here on is in its place
  // The last row first: none is written over before it was moved, since each moves towards the end.
  for (int64_t r = rows; r-- > 0;) {
    int64_t left = r, at = 0, step = element_bytes * (rank ? dims[rank - 1] : 1);
    for (size_t k = rank; k-- > 1;) {
      at += left % old_dims[k - 1] * step;
      left /= old_dims[k - 1];
      step *= dims[k - 1];
    }
    std::memmove(to + at, from + r * row, static_cast<size_t>(row));
    std::memset(to + at + row, 0, static_cast<size_t>(behind - at - row));
    behind = at;
  }
  std::memset(to, 0, static_cast<size_t>(behind));
}

// Memory of a device with what a state there begins with: what it held, where it grows, and zeros.
Result<device::Memory> Session::State::new_state(size_t buffer, const BoundShape& s, bool grows,
                                                 const std::vector<int64_t>& dims) {
  const StateMemory& old = states[buffer];
  const plan::Buffer& b = program().buffers[buffer];
  DeviceLanes& own = devices.lanes[b.device];
  device::Memory out;
  uint64_t moves = 0;
  std::vector<std::byte> bytes(std::max<size_t>(static_cast<size_t>(s.arena_plan.bytes[buffer]), 1));
  PERI_TRY(grow_on_device(options(), &own, &out, bytes.size(), "a state", &moves));
  if (grows) {
    std::vector<std::byte> before(old.away.bytes());
    PERI_TRY(own.read(before, old.away.address()));
    grow_contents(before.data(), old.dims, bytes.data(), dims, dtype_bits(b.dtype) / 8);
  }
  PERI_TRY(own.write(out.address(), bytes));
  return out;
}

// A state lives across runs. One that grows keeps its contents; where a dimension shrinks it begins anew as zeros.
Status Session::State::hold_states(const BoundShape& s) {
  struct Change {
    size_t buffer;
    bool grows;
    std::vector<int64_t> dims;
    Memory fresh;  // where the old memory is too small
    device::Memory away = {};
  };
  states.resize(program().buffers.size());
  // All that can fail comes before the first state is touched: those that grow together keep their contents together.
  std::vector<Change> changes;
  for (const auto& [k, dims] : s.state_dims) {
    const StateMemory& state = states[k];
    const plan::Buffer& b = program().buffers[k];
    const auto bytes = static_cast<size_t>(s.arena_plan.bytes[k]);
    if (state.used && state.dims == dims) continue;
    const bool grows = state.used && std::equal(dims.begin(), dims.end(), state.dims.begin(), state.dims.end(),
                                                [](int64_t a, int64_t b) { return a >= b; });
    if (grows && (dtype_bits(b.dtype) % 8 || !b.layout.empty()))
      return unsupported("a state of packed elements or another layout than row-major cannot grow")
          .at_node(b.name)
          .advise("create a session for each size");
    changes.push_back({k, grows, dims, {}});
    if (b.device != plan::kHost) {
      PERI_ASSIGN(changes.back().away, new_state(k, s, grows, dims));
      continue;
    }
    if (bytes > state.memory.bytes || !state.memory.data) PERI_TRY(changes.back().fresh.reserve(bytes, options()));
  }
  for (Change& c : changes) {
    StateMemory& state = states[c.buffer];
    if (c.away.bytes()) {
      ++placement;
      state.away = std::move(c.away);
      state.dims = std::move(c.dims);
      state.used = true;
      continue;
    }
    std::byte* to = c.fresh.data ? c.fresh.data.get() : state.memory.data.get();
    if (c.grows)
      grow_contents(state.memory.data.get(), state.dims, to, c.dims, dtype_bits(program().buffers[c.buffer].dtype) / 8);
    else
      std::memset(to, 0, static_cast<size_t>(s.arena_plan.bytes[c.buffer]));
    if (c.fresh.data) {
      ++placement;
      state.memory = std::move(c.fresh);
    }
    state.dims = std::move(c.dims);
    state.used = true;
  }
  return Ok{};
}

void Session::State::place_buffers(BoundShape* s) const {
  const plan::Program& p = program();
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const plan::Buffer& b = p.buffers[k];
    if (b.dtype == DType::kString)
      s->pointers[k] = strings[k].get();
    else if (b.kind == plan::BufferKind::kWeight)
      s->pointers[k] = const_cast<void*>(weights[k].data());
    else if (states[k].used)
      s->pointers[k] = states[k].memory.data.get();
    else if (s->arena_plan.offset[k] != plan::kUnbound)
      s->pointers[k] = b.device == plan::kHost ? arena.data.get() + s->arena_plan.offset[k] : nullptr;
  }
  if (!devices.empty()) place_on_devices(s);
  s->placed = placement;
}

// Memory for the shape, its addresses in it, and its guards: a shape that was current before may have written there.
Status Session::State::enter(BoundShape* s) {
  const bool returns = s != now;
  now = nullptr;
  if (s->scratch_threads != pool->threads()) {
    s->scratch_bytes = 0;
    for (const auto& i : s->instances)
      if (i) s->scratch_bytes = std::max(s->scratch_bytes, scratch_places(*i).bytes);
    s->scratch_threads = pool->threads();
  }
  const uint64_t before = placement;
  PERI_TRY(hold(&arena, static_cast<size_t>(s->arena_plan.arena_bytes) + kSlack));
  PERI_TRY(hold(&scratch, s->scratch_bytes + kSlack));
  if (!devices.empty()) PERI_TRY(hold_devices(*s));
  PERI_TRY(hold_states(*s));
  if (s->placed != placement) place_buffers(s);
  now = s;
  if (!s->guards.empty() && (returns || placement != before)) {
    Status filled = fill_guards();
    if (!filled.ok()) now = nullptr;
    return filled;
  }
  return Ok{};
}

Status Session::State::prepare_for(const std::vector<std::vector<int64_t>>& dims) {
  const auto of = [&](size_t k) -> const std::vector<int64_t>& { return dims[k]; };
  PERI_ASSIGN(const bool there, return_to(dims.size(), of));
  if (there) return Ok{};
  now = nullptr;
  kept.reserve(kKeptShapes + 1);  // what is entered below is kept, without fail
  auto fresh = std::make_unique<BoundShape>();
  fresh->input_dims = dims;
  fresh->how = how;
  PERI_TRY(plan::bind_sizes(program(), sizes(), dims, &fresh->values));
  fresh->binding = sizes().table.binding_of(fresh->values);
  ++shapes_bound;
  if (Status planned = plan_memory(fresh.get()); !planned.ok()) {
    // Of a value with a size below 0: its step says why the inputs are too small.
    if (planned.error().kind == ErrorKind::kInvalid) PERI_TRY(make_instances(fresh.get()));
    return planned;
  }
  PERI_TRY(hold(&arena, static_cast<size_t>(fresh->arena_plan.arena_bytes) + kSlack));  // or fail before work is done
  PERI_TRY(check_rooms(*fresh, {}));
  PERI_TRY(make_instances(fresh.get()));
  if (!devices.empty()) {
    PERI_TRY(plan_workspaces(fresh.get()));
    PERI_ASSIGN(const std::vector<int64_t> weights, engine->weights_to_bring(fresh->instances));
    PERI_TRY(check_rooms(*fresh, weights));
    PERI_TRY(engine->bring_weights(fresh->instances));
  }
  PERI_TRY(enter(fresh.get()));
  kept.insert(kept.begin(), std::move(fresh));
  if (kept.size() > kKeptShapes) kept.pop_back();
  if (devices.empty() || data_dependent) return Ok{};
  point_steps();  // of what stays where it is in all runs; the rest is pointed to by each
  return capture_segments();
}

// A buffer's bytes, on whatever device, with 0xff; one without memory is left out, and so is what a device refuses.
void Session::State::fill(size_t buffer, void* host) {
  constexpr std::byte kPoison{0xff};
  const auto bytes = static_cast<size_t>(now->arena_plan.bytes[buffer]);
  if (program().buffers[buffer].device != plan::kHost) {
    if (now->addresses[buffer].value) (void)write_device(buffer, kPoison);
  } else if (host) {
    std::memset(host, static_cast<int>(kPoison), bytes);
  }
}

void Session::poison() {
  State& s = *state_;
  if (!s.now) return;
  const plan::Program& p = s.program();
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (s.now->arena_plan.offset[k] != plan::kUnbound && (p.buffers[k].alias_of < 0 || s.now->taking[k]))
      s.fill(k, p.buffers[k].device == plan::kHost ? s.arena.data.get() + s.now->arena_plan.offset[k] : nullptr);
}

void Session::poison_results(size_t step) {
  State& s = *state_;
  const plan::Step& x = s.program().steps[step];
  for (size_t j = 0; j < x.writes.size(); ++j) {
    const bool takes = j < x.shares.size() && x.shares[j] >= 0;
    if (takes || x.writes[j] < 0) continue;
    const size_t b = static_cast<size_t>(x.writes[j]);
    if (s.program().buffers[b].dtype == DType::kString || s.now->arena_plan.bytes[b] == plan::kUnbound) continue;
    s.fill(b, s.now->writes[step][j]);
  }
  if (x.device != plan::kHost) {
    // That of a step made while running is its lane's.
    device::Argument workspace = s.workspace_of(step);
    if (const device::Memory& lane = s.devices.lanes[x.device].workspaces[s.devices.lane_of[step]];
        !s.now->instances[step])
      workspace = {lane.address(), lane.bytes()};
    const std::vector<std::byte> bytes(workspace.bytes, std::byte{0xff});
    if (!bytes.empty()) (void)s.devices.lanes[x.device].write(workspace.address, bytes);
    return;
  }
  if (!s.now->instances[step] || !s.scratch.data) return;
  const ScratchPlaces places = s.scratch_places(*s.now->instances[step]);
  std::memset(s.scratch.data.get() + places.shared, 0xff, places.need.shared);
  for (size_t t = 0; t < static_cast<size_t>(places.threads); ++t)
    std::memset(s.scratch.data.get() + places.each + t * places.stride, 0xff, places.need.each);
}

}  // namespace peri::runtime
