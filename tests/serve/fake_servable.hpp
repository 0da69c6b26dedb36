// A model for tests: doubles f32[n,k], one run at a time on each slot, with a configurable delay, and blocked by a
// gate.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "runtime/servable.hpp"

namespace peri::serve {

class FakeServable final : public runtime::Servable {
 public:
  explicit FakeServable(int slots = 1) : slots_(slots) {
    plan::Port x;
    x.name = "x";
    x.dtype = DType::kF32;
    x.shape = {Dim::symbol("batch"), Dim::symbol("n")};
    in_ = {x};
    x.name = "y";
    out_ = {x};
  }
  std::span<const plan::Port> inputs() const override { return in_; }
  std::span<const plan::Port> outputs() const override { return out_; }
  int slots() const override { return slots_; }
  // Opens the gate for the run of this ticket, which then fails as cancelled.
  bool cancel(uint64_t ticket) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++cancels;
    if (!interruptible || running_ != ticket) return false;
    cancelled_ = true;
    gate_.notify_all();
    return true;
  }
  runtime::Cost cost(std::span<const Tensor>) const override { return {expected_ns, 4}; }
  uint64_t progress() const override { return runs; }
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    if (++now_ > slots_) overlapped = true;
    ++entered;
    if (on_entry) on_entry();
    bool cut = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      running_ = ticket;
      gate_.wait(lock, [&] { return !closed_ || cancelled_ || passes_ > 0; });
      if (closed_ && !cancelled_) --passes_;
      cut = std::exchange(cancelled_, false);
      running_ = 0;
    }
    if (cut) {
      --now_;
      return sink->answer(Error(ErrorKind::kCancelled, "the run was cancelled"), true);
    }
    Result<std::vector<Tensor>> answer = invalid("a value below zero");
    Tensor y = *Tensor::zeros(DType::kF32, tensors[0].dims());
    bool bad = false;
    for (int64_t k = 0; k < y.numel(); ++k) {
      bad = bad || tensors[0].f64(k) < 0;
      y.set_f64(k, factor * tensors[0].f64(k));
    }
    if (!bad) answer = std::vector<Tensor>{y};
    ++runs;
    --now_;
    sink->answer(std::move(answer), true);
  }
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  // Lets one run pass the closed gate.
  void let_one() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++passes_;
    }
    gate_.notify_all();
  }
  void open() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = false;
    }
    gate_.notify_all();
  }

  std::atomic<int64_t> expected_ns{-1};
  std::atomic<uint64_t> runs{0}, entered{0}, cancels{0};
  bool interruptible = false;      // a run that waits at the gate can be cancelled: for models of one slot
  std::function<void()> on_entry;  // called in each run; set before it is served
  std::atomic<bool> overlapped{false};
  std::atomic<int> factor{2};

 private:
  const int slots_;
  std::vector<plan::Port> in_, out_;
  std::atomic<int> now_{0};
  std::mutex mutex_;
  std::condition_variable gate_;
  bool closed_ = false, cancelled_ = false;
  int passes_ = 0;
  uint64_t running_ = 0;  // a ticket
};

}  // namespace peri::serve
