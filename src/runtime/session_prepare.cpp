// What depends on the input dims alone, and is kept between runs: their binding, the arena, the instances of the steps.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "runtime/session_state.hpp"

namespace peri::runtime {

namespace {
constexpr int64_t kGuardBytes = 4096;
constexpr int kGuard = 0xa5;
}  // namespace

// One after the other with guards between them; results that take the memory of an argument have their own.
Status Session::State::separate_memory() {
  const plan::Program& p = program();
  taking.assign(p.buffers.size(), false);
  for (const plan::Step& s : p.steps)
    for (size_t j = 0; j < s.shares.size(); ++j)
      if (s.shares[j] >= 0 && s.writes[j] != s.reads[static_cast<size_t>(s.shares[j])])
        taking[static_cast<size_t>(s.writes[j])] = true;
  int64_t at = kGuardBytes;
  guards = {{0, at}};
  guard_of.assign(p.buffers.size(), 0);
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    if (arena_plan.offset[k] == plan::kUnbound) continue;
    const plan::Buffer& b = p.buffers[k];
    if (b.alias_of >= 0 && !taking[k]) {
      PERI_ASSIGN(const int64_t inside, b.alias_offset.eval(binding));
      arena_plan.offset[k] = arena_plan.offset[static_cast<size_t>(b.alias_of)] + inside;
      continue;
    }
    arena_plan.offset[k] = at;
    PERI_ASSIGN(const int64_t end, checked_add(at, arena_plan.bytes[k], "arena"));
    PERI_ASSIGN(at, checked_add(end, 2 * kGuardBytes, "arena"));
    at = at / kGuardBytes * kGuardBytes;  // a page at least behind each, and where the next begins
    guard_of[k] = guards.size();
    guards.emplace_back(end, at);
  }
  arena_plan.arena_bytes = at;
  return Ok{};
}

Status Session::State::check_guard(size_t guard) const {
  const auto [begin, end] = guards[guard];
  const auto whole = [](std::byte b) { return b == std::byte{kGuard}; };
  const std::byte *from = arena.data.get() + begin, *to = arena.data.get() + end;
  const std::byte* damaged = std::find_if_not(from, to, whole);
  if (damaged == to) return Ok{};
  return internal_error("a kernel wrote outside its results, %td bytes into the guard between two buffers",
                        damaged - from);
}

// Those on both sides of what the step writes.
Status Session::State::check_guards(size_t step) const {
  for (int32_t b : program().steps[step].writes) {
    const size_t guard = b < 0 ? 0 : guard_of[static_cast<size_t>(b)];
    if (guard == 0) continue;
    PERI_TRY(check_guard(guard - 1));
    PERI_TRY(check_guard(guard));
  }
  return Ok{};
}

Status Session::State::layout_memory() {
  PERI_ASSIGN(arena_plan, plan::plan_arena(program(), binding));
  taking.assign(program().buffers.size(), false);
  guards.clear();
  if (separate) PERI_TRY(separate_memory());
  PERI_TRY(arena.reserve(static_cast<size_t>(arena_plan.arena_bytes) + 64, options()));
  for (const auto& [begin, end] : guards)
    std::memset(arena.data.get() + begin, kGuard, static_cast<size_t>(end - begin));
  return Ok{};
}

void Session::poison() {
  State& s = *state_;
  if (!s.prepared) return;
  const plan::Program& p = s.program();
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (s.arena_plan.offset[k] != plan::kUnbound && (p.buffers[k].alias_of < 0 || s.taking[k]))
      std::memset(s.arena.data.get() + s.arena_plan.offset[k], 0xff, static_cast<size_t>(s.arena_plan.bytes[k]));
}

void Session::poison_results(size_t step) {
  State& s = *state_;
  const plan::Step& x = s.program().steps[step];
  for (size_t j = 0; j < x.writes.size(); ++j) {
    const bool takes = j < x.shares.size() && x.shares[j] >= 0;
    if (takes || x.writes[j] < 0 || !s.writes[step][j]) continue;
    const size_t b = static_cast<size_t>(x.writes[j]);
    if (s.program().buffers[b].dtype == DType::kString || s.arena_plan.bytes[b] == plan::kUnbound) continue;
    std::memset(s.writes[step][j], 0xff, static_cast<size_t>(s.arena_plan.bytes[b]));
  }
  if (s.instances[step] && s.scratch.data)
    std::memset(s.scratch.data.get(), 0xff, s.instances[step]->scratch_bytes(s.pool->threads()));
}

Status Session::State::place_strings() {
  strings.resize(program().buffers.size());
  for (size_t k = 0; k < strings.size(); ++k)
    if (program().buffers[k].dtype == DType::kString && !strings[k])
      strings[k] = std::make_unique<std::vector<std::string>>();
  return Ok{};
}

// A state lives across runs; when its size changes it begins anew as zeros.
Status Session::State::place_states() {
  const plan::Program& p = program();
  states.resize(p.buffers.size());
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    if (p.buffers[k].kind != plan::BufferKind::kState || p.buffers[k].alias_of >= 0 ||
        p.buffers[k].dtype == DType::kString)
      continue;
    auto& [memory, bytes] = states[k];
    if (memory.data && bytes == arena_plan.bytes[k]) continue;
    bytes = arena_plan.bytes[k];
    PERI_TRY(memory.reserve(static_cast<size_t>(bytes), options()));
    std::memset(memory.data.get(), 0, memory.bytes);
  }
  return Ok{};
}

Status Session::State::prepare_for(const std::vector<std::vector<int64_t>>& dims) {
  if (prepared && dims == input_dims) return Ok{};
  prepared = false;
  const plan::Program& p = program();
  PERI_ASSIGN(binding, plan::bind_dims(p, dims, lowest_dim));
  PERI_TRY(layout_memory());
  PERI_TRY(place_strings());
  PERI_TRY(place_states());
  shift.assign(p.buffers.size(), 0);
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    if (p.buffers[k].alias_of < 0 || taking[k] || arena_plan.bytes[k] == plan::kUnbound) continue;
    PERI_ASSIGN(shift[k], p.buffers[k].alias_offset.eval(binding));
  }
  instances.assign(p.steps.size(), nullptr);
  reads.assign(p.steps.size(), {});
  writes.assign(p.steps.size(), {});
  pointers.assign(p.buffers.size(), nullptr);
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const plan::Buffer& b = p.buffers[k];
    if (b.dtype == DType::kString)
      pointers[k] = strings[k].get();
    else if (b.kind == plan::BufferKind::kWeight)
      pointers[k] = const_cast<void*>(weights[k].data());
    else if (states[k].first.data)
      pointers[k] = states[k].first.data.get();
    else if (arena_plan.offset[k] != plan::kUnbound)
      pointers[k] = arena.data.get() + arena_plan.offset[k];
  }
  PERI_TRY(make_instances());
  size_t scratch_bytes = 0;
  for (const auto& i : instances)
    if (i) scratch_bytes = std::max(scratch_bytes, i->scratch_bytes(pool->threads()));
  PERI_TRY(scratch.reserve(scratch_bytes + 64, options()));
  for (size_t k = 0; k < p.steps.size(); ++k) {
    for (int32_t b : p.steps[k].reads) reads[k].push_back(b < 0 ? nullptr : pointers[static_cast<size_t>(b)]);
    for (int32_t b : p.steps[k].writes) writes[k].push_back(b < 0 ? nullptr : pointers[static_cast<size_t>(b)]);
  }
  input_dims = dims;
  prepared = true;
  prepared_threads = pool->threads();
  return Ok{};
}

// Instances of all steps up to the first that binds dimensions; packing of weights goes by steps over the pool.
Status Session::State::make_instances() {
  const plan::Program& p = program();
  size_t count = 0;
  while (count < p.steps.size() && p.steps[count].binds.empty()) ++count;
  if (count < p.steps.size()) ++count;
  std::mutex mutex;
  std::optional<Error> first;
  pool->run(static_cast<int64_t>(count), [&](int64_t k, int) {
    auto made = engine->instance(static_cast<size_t>(k), binding);
    if (made.ok()) {
      instances[static_cast<size_t>(k)] = std::move(made).value();
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (!first) first = std::move(made).error();
  });
  if (first) return *std::move(first);
  return Ok{};
}

}  // namespace peri::runtime
