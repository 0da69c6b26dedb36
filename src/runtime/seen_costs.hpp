// SeenCosts: recent run times by size, for a scheduler. Any thread may record and query.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "base/tensor.hpp"

namespace peri::runtime {

class SeenCosts {
 public:
  // An exponential mean: each new time has a weight of 1/8, and counts as at most eight times the mean. The first run
  // of a size includes making instances and memory, and fades in the same way.
  void note(uint64_t key, int64_t took_ns) {
    Seen& seen = seen_[(key >> 32) % seen_.size()];
    const int64_t before = expected(key);
    const int64_t capped = before < 0 ? took_ns : std::min(took_ns, 8 * before + 1000);
    seen.expected_ns.store(before < 0 ? took_ns : before + (capped - before) / 8, std::memory_order_relaxed);
    seen.key.store(key, std::memory_order_relaxed);
  }
  // -1: none was recorded.
  int64_t expected(uint64_t key) const {
    const Seen& seen = seen_[(key >> 32) % seen_.size()];
    if (seen.key.load(std::memory_order_relaxed) != key) return -1;
    return seen.expected_ns.load(std::memory_order_relaxed);
  }
  // Of the dims of inputs.
  static uint64_t key_of(std::span<const Tensor> tensors) {
    uint64_t key = 1;
    for (const Tensor& t : tensors)
      for (const int64_t d : t.dims()) key = (key ^ static_cast<uint64_t>(d)) * 0x9e3779b97f4a7c15ull;
    return key | 1;
  }

 private:
  struct Seen {
    std::atomic<uint64_t> key{0};
    std::atomic<int64_t> expected_ns{-1};
  };
  std::array<Seen, 64> seen_;  // by key; of those that share an entry the latest
};

}  // namespace peri::runtime
