// Sessions are kept in a stack: the last one used runs next, with its memory still in the caches.
#include "runtime/engine_servable.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "plan/iterations.hpp"

namespace peri::runtime {

namespace {
bool takes_sizes(const plan::Program& program, std::span<const Tensor> tensors) {
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : tensors) dims.push_back(t.dims());
  return plan::bind_dims(program, dims).ok();
}
}  // namespace

Result<std::shared_ptr<EngineServable>> EngineServable::create(std::shared_ptr<const Engine> engine, int slots,
                                                               int threads, std::shared_ptr<const MappedFile> file) {
  if (slots < 1 || slots > 1024) return usage("%d instances of a model: 1 to 1024 are possible", slots);
  auto out = std::shared_ptr<EngineServable>(new EngineServable());
  out->engine_ = std::move(engine);
  out->file_ = std::move(file);
  out->slots_ = slots;
  out->loops_ = plan::has_loop(out->engine_->program());
  for (int k = 0; k < slots; ++k) {
    auto slot = std::make_unique<Slot>();
    PERI_ASSIGN(slot->session, Session::create(out->engine_, threads));
    // Asked before each step: what has been done is counted there, too.
    slot->session->stop_when([servable = out.get(), s = slot.get()] {
      servable->progress_.fetch_add(1, std::memory_order_relaxed);
      return s->cancelled.load(std::memory_order_relaxed);
    });
    out->idle_.push_back(std::move(slot));
  }
  return out;
}

Cost EngineServable::cost(std::span<const Tensor> tensors) const {
  Cost out;
  for (const Tensor& t : tensors) out.bytes += static_cast<int64_t>(t.bytes().size());
  if (!loops_) out.expected_ns = seen_.expected(SeenCosts::key_of(tensors));
  return out;
}

bool EngineServable::cancel(uint64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = running_.find(ticket);
  if (it == running_.end()) return false;
  it->second->cancelled = true;
  return true;
}

device::MemoryInfo EngineServable::device_memory() const {
  const auto count = static_cast<uint32_t>(engine_->program().devices.size());
  for (uint32_t k = plan::kHost + 1; k < count; ++k)
    if (const device::Device* d = engine_->device(k)) return d->memory();
  return {};
}

Result<std::vector<Tensor>> EngineServable::run(std::span<const Tensor> tensors, uint64_t ticket) {
  std::unique_ptr<Slot> slot;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PERI_CHECK(!idle_.empty(), "more requests at once than slots");
    slot = std::move(idle_.back());
    idle_.pop_back();
    slot->cancelled = false;
    if (ticket != 0) running_[ticket] = slot.get();
  }
  const int64_t start = now_ns();
  auto outputs = contained([&] { return slot->session->run(tensors); });
  if (outputs.ok()) seen_.note(SeenCosts::key_of(tensors), now_ns() - start);
  progress_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.erase(ticket);
    idle_.push_back(std::move(slot));
  }
  if (!outputs.ok() && outputs.error().kind == ErrorKind::kRefused && !takes_sizes(engine_->program(), tensors)) {
    Error never = std::move(outputs).error();  // not even later, as a refusal says to clients
    never.kind = ErrorKind::kUsage;
    never.remedy.clear();  // of who builds the engine; the limits are said
    return never;
  }
  if (outputs.ok() && file_)
    if (Status whole = file_->check(); !whole.ok()) return std::move(whole).error();
  return outputs;
}

Status EngineServable::warm(std::span<const Tensor> tensors) {
  for (const std::unique_ptr<Slot>& slot : idle_) PERI_TRY(contained([&] { return slot->session->run(tensors); }));
  PERI_TRY(run(tensors));  // the first time that counts
  return Ok{};
}

void EngineServable::submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<Sink> sink) {
  auto outputs = run(tensors, ticket);
  tensors.clear();
  sink->answer(std::move(outputs), true);
}

}  // namespace peri::runtime
