// Copies are made outside the lock, since they may be large; the answer's own memory may be shared with a worker.
#include "serve/queue/response_cache.hpp"

#include <algorithm>
#include <cstring>

namespace peri::serve {

namespace {
uint64_t key_of(uint64_t model, std::span<const Tensor> inputs) {
  uint64_t key = model * 0x9e3779b97f4a7c15ull;
  for (const Tensor& t : inputs) key = (key ^ t.content_hash()) * 0x9e3779b97f4a7c15ull + (key >> 31);
  return key;
}

bool same(std::span<const Tensor> a, std::span<const Tensor> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.same_content(y); });
}

size_t bytes_of(std::span<const Tensor> tensors) {
  size_t out = 0;
  for (const Tensor& t : tensors) {
    out += 128 + t.bytes().size();
    if (t.dtype() == DType::kString)
      for (const std::string& s : t.string_values()) out += sizeof(std::string) + s.size();
  }
  return out;
}

Result<std::vector<Tensor>> copies(std::span<const Tensor> tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    if (t.dtype() == DType::kString) {
      PERI_ASSIGN(Tensor copy, Tensor::strings(t.dims(), t.string_values()));
      out.push_back(std::move(copy));
      continue;
    }
    PERI_ASSIGN(Tensor copy, Tensor::uninitialized(t.dtype(), t.dims()));
    if (!t.bytes().empty()) std::memcpy(copy.mutable_data(), t.bytes().data(), t.bytes().size());
    out.push_back(std::move(copy));
  }
  return out;
}
}  // namespace

std::optional<ResponseCache::Place> ResponseCache::place(uint64_t key, uint64_t model, std::span<const Tensor> inputs) {
  const auto [first, last] = by_key_.equal_range(key);
  for (auto it = first; it != last; ++it)
    if (it->second->model == model && same(it->second->inputs, inputs)) return it->second;
  return std::nullopt;
}

std::optional<std::vector<Tensor>> ResponseCache::find(uint64_t model, std::span<const Tensor> inputs) {
  const uint64_t key = key_of(model, inputs);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = place(key, model, inputs);
  if (!at) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, *at);
  return (*at)->outputs;
}

void ResponseCache::put(uint64_t model, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  Entry e;
  e.bytes = bytes_of(inputs) + bytes_of(outputs);
  if (e.bytes > most_bytes_ / 8) return;
  auto asked = copies(inputs);
  auto said = copies(outputs);
  if (!asked.ok() || !said.ok()) return;  // out of memory: not stored
  e.key = key_of(model, inputs);
  e.model = model;
  e.inputs = std::move(*asked);
  e.outputs = std::move(*said);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (place(e.key, model, e.inputs)) return;
  bytes_ += e.bytes;
  entries_.push_front(std::move(e));
  by_key_.emplace(entries_.front().key, entries_.begin());
  while (bytes_ > most_bytes_) {
    const Place oldest = std::prev(entries_.end());
    const auto [first, last] = by_key_.equal_range(oldest->key);
    by_key_.erase(std::find_if(first, last, [&](const auto& row) { return row.second == oldest; }));
    bytes_ -= oldest->bytes;
    entries_.erase(oldest);
  }
}

size_t ResponseCache::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace peri::serve
