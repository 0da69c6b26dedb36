// Engines of hand-written programs for tests, on memory whose allocations are counted and may be refused.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "device/target.hpp"
#include "exec/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::runtime::tests {

inline Tensor ones(std::vector<int64_t> dims) {
  Tensor t = Tensor::zeros(DType::kF32, std::move(dims)).value();
  for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, 1);
  return t;
}

struct Counted {
  std::atomic<int64_t> allocations{0}, live{0};
  size_t most = SIZE_MAX;  // of one allocation
};
inline Allocator counting(Counted* counted) {
  return {[](void* user, size_t bytes, size_t alignment) -> void* {
            auto* c = static_cast<Counted*>(user);
            if (bytes > c->most) return nullptr;
            ++c->allocations;
            c->live += static_cast<int64_t>(bytes);
            return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
          },
          [](void* user, void* memory, size_t bytes) {
            static_cast<Counted*>(user)->live -= static_cast<int64_t>(bytes);
            std::free(memory);
          },
          counted};
}

inline const std::vector<const Executor*>& own_executors() {
  static const std::vector<const Executor*> kTable = exec::table();
  return kTable;
}

// `table` outlives the engine.
inline Result<std::shared_ptr<const Engine>> engine_of(const plan::Program& p, Counted* counted = nullptr,
                                                       WeightSource weights = {},
                                                       const std::vector<const Executor*>& table = own_executors()) {
  EngineOptions o;
  o.executors = table;
  o.machine = {device::this_cpu().isas, exec::libraries()};
  if (counted) o.allocator = counting(counted);
  return Engine::create(p, std::move(weights), o);
}

}  // namespace peri::runtime::tests
