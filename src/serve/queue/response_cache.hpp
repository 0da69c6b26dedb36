// ResponseCache: responses keyed by their requests, compared in full. The least recently used is removed first; the
// total size is limited. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/tensor.hpp"

namespace peri::serve {

class ResponseCache {
 public:
  explicit ResponseCache(size_t bytes) : most_bytes_(bytes) {}
  // `model`: a number that its requests share with no other's (Model::answered_by).
  std::optional<std::vector<Tensor>> find(uint64_t model, std::span<const Tensor> inputs);
  // Stores copies, unless they are larger than an eighth of the total size.
  void put(uint64_t model, std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  size_t bytes() const;

 private:
  struct Entry {
    uint64_t key = 0, model = 0;
    std::vector<Tensor> inputs, outputs;
    size_t bytes = 0;
  };
  using Place = std::list<Entry>::iterator;
  std::optional<Place> place(uint64_t key, uint64_t model, std::span<const Tensor> inputs);

  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_multimap<uint64_t, Place> by_key_;
  size_t bytes_ = 0;
};

}  // namespace peri::serve
