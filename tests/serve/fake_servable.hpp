// A model for tests: doubles f32[n,k], one run at a time on each slot, with a configurable delay, and blocked by a
// gate.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

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
  bool cancel(uint64_t) override { return false; }
  runtime::Cost cost(std::span<const Tensor>) const override { return {expected_ns, 4}; }
  uint64_t progress() const override { return runs; }
  void submit(uint64_t, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    if (++now_ > slots_) overlapped = true;
    ++entered;
    if (on_entry) on_entry();
    {
      std::unique_lock<std::mutex> lock(mutex_);
      gate_.wait(lock, [&] { return !closed_; });
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
  void open() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = false;
    }
    gate_.notify_all();
  }

  std::atomic<int64_t> expected_ns{-1};
  std::atomic<uint64_t> runs{0}, entered{0};
  std::function<void()> on_entry;  // called in each run; set before it is served
  std::atomic<bool> overlapped{false};
  std::atomic<int> factor{2};

 private:
  const int slots_;
  std::vector<plan::Port> in_, out_;
  std::atomic<int> now_{0};
  std::mutex mutex_;
  std::condition_variable gate_;
  bool closed_ = false;
};

}  // namespace peri::serve
