// Batch: the calls of one run of a model, for the files that implement Model.
#pragma once

#include "serve/queue/model.hpp"

namespace peri::serve {

struct Model::Batch final : runtime::Sink {
  Batch(Model* m, std::vector<CallPtr> c, CutReason r, Turns::Run t)
      : model(m), calls(std::move(c)), reason(r), turn(t) {
    const std::lock_guard<std::mutex> lock(m->mutex_);
    ++m->batches_;
  }
  ~Batch() override {
    const std::lock_guard<std::mutex> lock(model->mutex_);
    --model->batches_;
    std::erase(model->running_, this);
    model->wake_.notify_all();  // under the lock: the model may be destroyed as soon as it is released
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  void answer(Result<std::vector<Tensor>> outputs, bool last) override {
    if (last) model->finish(*this, std::move(outputs));
  }
  size_t clients() const override { return calls.front()->probe ? 0 : calls.size(); }
  void withdrawn() override { model->begin_again(*this); }
  Model* model;
  std::vector<CallPtr> calls;
  CutReason reason;
  Turns::Run turn;
  int64_t rows = 0, began_ns = 0, joined_ns = 0;
  // How often its end was asked for, and not before when again. REQUIRES, for these and ask_ns(): mutex_ is held.
  int asks = 0;
  int64_t again_ns = 0;
  int64_t ask_ns() const;  // when to ask for its end: once nobody waits for it; INT64_MAX: never
  // The same for taking it back if it has not begun: once the time of one of its calls is over.
  int withdrawals = 0;
  int64_t withdraw_again_ns = 0;
  int64_t withdraw_ns() const;
};

// The errors for a call whose client left, whose time is over, whose model has ended.
Error client_left();
Error time_over();
inline Error not_served() { return {ErrorKind::kCancelled, "the model is no longer served"}; }

}  // namespace peri::serve
