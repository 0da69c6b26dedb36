// Sessions wait in a stack: the one used last runs next, its memory still in the caches.
#include "runtime/engine_servable.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/fault.hpp"

namespace peri::runtime {

Result<std::shared_ptr<EngineServable>> EngineServable::create(std::shared_ptr<const Engine> engine, int slots,
                                                               int threads, std::shared_ptr<const MappedFile> file) {
  if (slots < 1 || slots > 1024) return usage("%d instances of a model: 1 to 1024 are possible", slots);
  auto out = std::shared_ptr<EngineServable>(new EngineServable());
  out->engine_ = std::move(engine);
  out->file_ = std::move(file);
  out->slots_ = slots;
  for (int k = 0; k < slots; ++k) {
    PERI_ASSIGN(auto session, Session::create(out->engine_, threads));
    out->idle_.push_back(std::move(session));
  }
  return out;
}

uint64_t EngineServable::key_of(std::span<const Tensor> tensors) {
  uint64_t key = 1;
  for (const Tensor& t : tensors)
    for (const int64_t d : t.dims()) key = (key ^ static_cast<uint64_t>(d)) * 0x9e3779b97f4a7c15ull;
  return key | 1;
}

Cost EngineServable::cost(std::span<const Tensor> tensors) const {
  Cost out;
  for (const Tensor& t : tensors) out.bytes += static_cast<int64_t>(t.bytes().size());
  const uint64_t key = key_of(tensors);
  const Seen& seen = seen_[(key >> 32) % seen_.size()];
  if (seen.key.load(std::memory_order_relaxed) == key)
    out.expected_ns = seen.expected_ns.load(std::memory_order_relaxed);
  return out;
}

// A mean that forgets: an eighth of each new time, none counted for more than eight times the mean. The first run of a
// size makes instances and memory and is forgotten the same way.
void EngineServable::note(std::span<const Tensor> tensors, int64_t took_ns) {
  const uint64_t key = key_of(tensors);
  Seen& seen = seen_[(key >> 32) % seen_.size()];
  const int64_t before = seen.key.load(std::memory_order_relaxed) == key ? seen.expected_ns.load() : -1;
  const int64_t capped = before < 0 ? took_ns : std::min(took_ns, 8 * before + 1000);
  seen.expected_ns.store(before < 0 ? took_ns : before + (capped - before) / 8, std::memory_order_relaxed);
  seen.key.store(key, std::memory_order_relaxed);
}

Result<std::vector<Tensor>> EngineServable::run(std::span<const Tensor> tensors) {
  std::unique_ptr<Session> session;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PERI_CHECK(!idle_.empty(), "more requests at once than slots");
    session = std::move(idle_.back());
    idle_.pop_back();
  }
  const int64_t start = now_ns();
  auto outputs = contained([&] { return session->run(tensors); });
  if (outputs.ok()) note(tensors, now_ns() - start);
  progress_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(session));
  }
  if (outputs.ok() && file_)
    if (Status whole = file_->check(); !whole.ok()) return std::move(whole).error();
  return outputs;
}

Status EngineServable::warm(std::span<const Tensor> tensors) {
  for (const std::unique_ptr<Session>& session : idle_) PERI_TRY(contained([&] { return session->run(tensors); }));
  PERI_TRY(run(tensors));  // the first time that counts
  return Ok{};
}

void EngineServable::submit(uint64_t, std::vector<Tensor> tensors, std::shared_ptr<Sink> sink) {
  auto outputs = run(tensors);
  tensors.clear();
  sink->answer(std::move(outputs), true);
}

}  // namespace peri::runtime
