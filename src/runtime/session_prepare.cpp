// What depends on the input dims alone, and is kept between runs: their binding, the arena, the instances of the steps.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "runtime/session_state.hpp"

namespace peri::runtime {

Status Session::State::layout_memory() {
  const plan::Program& p = program();
  PERI_ASSIGN(arena_plan, plan::plan_arena(p, binding));
  if (keep_all) {  // one after the other, nothing shared
    int64_t at = 0;
    for (size_t k = 0; k < p.buffers.size(); ++k) {
      if (p.buffers[k].alias_of >= 0 || arena_plan.offset[k] == plan::kUnbound) continue;
      arena_plan.offset[k] = at;
      PERI_ASSIGN(at, checked_add(at, (arena_plan.bytes[k] + 4095) / 4096 * 4096, "arena"));
    }
    arena_plan.arena_bytes = at;
    for (size_t k = 0; k < p.buffers.size(); ++k) {
      const plan::Buffer& b = p.buffers[k];
      if (b.alias_of < 0 || arena_plan.offset[k] == plan::kUnbound) continue;
      PERI_ASSIGN(const int64_t shift, b.alias_offset.eval(binding));
      arena_plan.offset[k] = arena_plan.offset[static_cast<size_t>(b.alias_of)] + shift;
    }
  }
  return arena.reserve(static_cast<size_t>(arena_plan.arena_bytes) + 64, options());
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
    if (p.buffers[k].alias_of < 0 || arena_plan.bytes[k] == plan::kUnbound) continue;
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
