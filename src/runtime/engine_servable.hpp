// EngineServable: an engine as a Servable. Each slot is a session with its own threads; a request runs on the thread
// that submits it and is answered before submit() returns.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "runtime/engine.hpp"
#include "runtime/seen_costs.hpp"
#include "runtime/servable.hpp"

namespace peri::runtime {

class EngineServable final : public Servable {
 public:
  // `slots` sessions of `threads` each. `file`, if the engine is in one: a result that depends on a file truncated
  // meanwhile is an error.
  static Result<std::shared_ptr<EngineServable>> create(std::shared_ptr<const Engine> engine, int slots, int threads,
                                                        std::shared_ptr<const MappedFile> file = nullptr);

  std::span<const plan::Port> inputs() const override { return engine_->program().inputs; }
  std::span<const plan::Port> outputs() const override { return engine_->program().outputs; }
  int slots() const override { return slots_; }
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<Sink> sink) override;
  // The run ends before its next step.
  bool cancel(uint64_t ticket) override;
  // The time is unknown where the program has a loop: it follows from values, not from sizes.
  Cost cost(std::span<const Tensor> tensors) const override;
  device::MemoryInfo device_memory() const override;
  uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }

  // One run on a free session, whose time is recorded for cost(). REQUIRES: a slot is free.
  Result<std::vector<Tensor>> run(std::span<const Tensor> tensors, uint64_t ticket = 0);
  // A run on every session, so that each has its memory and instances for these sizes. REQUIRES: no requests in
  // progress.
  Status warm(std::span<const Tensor> tensors);
  const Engine& engine() const { return *engine_; }

 private:
  EngineServable() = default;
  // A session and the state of its current run.
  struct Slot {
    std::unique_ptr<Session> session;
    std::atomic<bool> cancelled{false};
  };

  std::shared_ptr<const Engine> engine_;
  std::shared_ptr<const MappedFile> file_;
  int slots_ = 1;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> idle_;
  std::unordered_map<uint64_t, Slot*> running_;  // by ticket, except 0
  std::atomic<uint64_t> progress_{0};            // steps of all runs
  SeenCosts seen_;
  bool loops_ = false;  // the time of a run depends on values, and may be any
};

}  // namespace peri::runtime
