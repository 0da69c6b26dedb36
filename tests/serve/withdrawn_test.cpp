// Requests that were sent to a worker and wait there behind a run: they are taken back when their time is over.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/temporary_folder.hpp"
#include "serve/queue/model.hpp"
#include "tests/serve/fake_servable.hpp"
#include "tests/serve/hosted.hpp"

namespace peri::serve {
namespace {

CallPtr call_of(float v, std::function<void(Answer)> done) {
  auto call = std::make_shared<Call>();
  call->inputs = {Tensor::of_f32({1, 2}, std::vector<float>{v, v + 1})};
  call->done = std::move(done);
  return call;
}

// The worker's only thread is at a run: what was sent after it is in the ring, read by nobody.
TEST(Withdrawn, WhatWaitsBehindARunIsTakenBack) {
  auto worker = Worker::start(fakes());
  ASSERT_TRUE(worker.ok());
  const TemporaryFolder folder = TemporaryFolder::create("worker").value();
  LoadOrder order = order_of("m");
  order.instances = 1;
  order.path = folder.path() + "/end";
  auto loaded = load(**worker, order);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  runtime::Servable& model = *loaded->servable;
  const auto runs = ask(model, {17, 1}, 1, 1), waits = ask(model, {3, 4}, 1, 2), last = ask(model, {5, 6}, 1, 3);
  EXPECT_TRUE(model.withdraw(2));
  EXPECT_EQ(waits->wait().error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(model.withdraw(2)) << "it is not there any more";
  EXPECT_TRUE(model.withdraw(1)) << "known, though it has begun";
  const auto more = ask(model, {7, 8}, 1, 4);
  EXPECT_TRUE(model.cancel(4));
  EXPECT_EQ(more->wait().error().kind, ErrorKind::kCancelled);
  ASSERT_TRUE(write_file_atomic(order.path, "").ok());
  ASSERT_TRUE(runs->wait().ok()) << runs->wait().error().text();
  ASSERT_TRUE(last->wait().ok()) << last->wait().error().text();
  EXPECT_EQ((*last->wait())[0].f64(1), 12);
}

// Keeps what it is given as a worker does: the first one runs until it is told, the others wait and may be taken back.
class Keeping final : public runtime::Servable {
 public:
  std::span<const plan::Port> inputs() const override { return ports_.inputs(); }
  std::span<const plan::Port> outputs() const override { return ports_.outputs(); }
  int slots() const override { return 8; }
  bool answers_later() const override { return true; }
  bool cancel(uint64_t) override { return false; }
  bool withdraw(uint64_t ticket) override {
    std::shared_ptr<runtime::Sink> sink;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto it = std::ranges::find(kept_, ticket, &Kept::ticket);
      if (it == kept_.begin() || it == kept_.end()) return false;
      sink = it->sink;
      kept_.erase(it);
    }
    sink->withdrawn();
    return true;
  }
  runtime::Cost cost(std::span<const Tensor>) const override { return {}; }
  uint64_t progress() const override { return 0; }
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.push_back({ticket, std::move(tensors), std::move(sink)});
  }
  std::vector<int64_t> rows() {  // of what it has
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> out;
    for (const Kept& k : kept_) out.push_back(k.tensors[0].dims()[0]);
    return out;
  }
  void end_all() {
    std::vector<Kept> all;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      all.swap(kept_);
    }
    for (Kept& k : all) k.sink->answer(std::move(k.tensors), true);
  }

 private:
  struct Kept {
    uint64_t ticket = 0;
    std::vector<Tensor> tensors;
    std::shared_ptr<runtime::Sink> sink;
  };
  FakeServable ports_;
  std::mutex mutex_;
  std::vector<Kept> kept_;
};

// Sent ahead to where a run takes long, a call waits there.
TEST(Withdrawn, ACallThatWaitsWhereItRunsTimesOut) {
  for (const bool asked : {false, true}) {  // by the queue's limit, by the call's own
    const auto keeping = std::make_shared<Keeping>();
    ModelOptions options;
    options.queue.level.timeout_override = asked;
    options.queue.level.timeout_ns = asked ? 0 : 20'000'000;
    Model model("m", 1, keeping, options);
    std::atomic<int> late{0}, answered{0};
    const auto count = [&](const Answer& a) { ++(a.error && a.failure == FailureReason::kTimeout ? late : answered); };
    model.submit(call_of(1, count));
    const CallPtr second = call_of(2, count);
    second->timeout_ns = 20'000'000;
    model.submit(second);
    EXPECT_EQ(keeping->rows().size(), 2u);
    wait_for([&] { return late == 1; });
    EXPECT_GE(now_ns() - second->arrived_ns, 20'000'000);
    keeping->end_all();
    wait_for([&] { return answered == 1; });
  }
}

TEST(Withdrawn, OfABatchThatIsTakenBackTheOthersRunAgain) {
  const auto keeping = std::make_shared<Keeping>();
  ModelOptions options;
  options.queue.sizes = {1, 2, 3, 4};
  options.queue.level.timeout_override = true;
  options.queue.max_delay_ns = 10'000'000'000;
  Model model("m", 1, keeping, options);
  std::atomic<int> late{0}, answered{0}, gone{0};
  const auto count = [&](const Answer& a) {
    ++(!a.error ? answered : a.failure == FailureReason::kTimeout ? late : gone);
  };
  std::vector<CallPtr> calls;
  for (int k = 0; k < 8; ++k) {
    calls.push_back(call_of(static_cast<float>(k), count));
    calls.back()->timeout_ns = k == 5 ? 1'000'000'000 : 0;
    model.submit(calls.back());
  }
  wait_for([&] { return keeping->rows() == std::vector<int64_t>{4, 4}; });
  model.cancel(calls[6]);
  wait_for([&] { return late == 1 && gone == 1; });
  wait_for([&] { return keeping->rows() == std::vector<int64_t>{4, 2}; });
  keeping->end_all();
  wait_for([&] { return answered == 6; });
}

}  // namespace
}  // namespace peri::serve
