// A model under calls from many threads: each is answered once, with its own rows; cancels, full queues, poisoned
// requests in a batch, order.
#include <algorithm>

#include "serve/queue/model.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/rng.hpp"
#include "tests/serve/fake_servable.hpp"

namespace peri::serve {
namespace {

CallPtr call_of(float v, std::function<void(Answer)> done) {
  auto call = std::make_shared<Call>();
  call->inputs = {Tensor::of_f32({1, 2}, std::vector<float>{v, v + 1})};
  call->done = std::move(done);
  return call;
}

ModelOptions batching(int64_t most) {
  ModelOptions o;
  for (int64_t k = 1; k <= most; ++k) o.queue.sizes.push_back(k);
  return o;
}

void wait_for(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

TEST(Model, APriorityOfNoLevelIsTheDefault) {
  const auto fake = std::make_shared<FakeServable>(1);
  ModelOptions options;
  options.queue.priority_levels = 2;
  options.queue.default_priority = 2;
  Model model("m", 1, fake, options);
  std::atomic<int> right{0}, wrong{0};
  for (const int priority : {0, 1, 2, 3, 1000}) {
    const CallPtr call = call_of(1, [&](Answer a) { ++(a.error ? wrong : right); });
    call->priority = priority;
    model.submit(call);
  }
  wait_for([&] { return right + wrong == 5; });
  EXPECT_EQ(wrong, 0);
}

TEST(Model, EveryCallIsAnsweredOnceWithItsOwnRows) {
  for (const bool batches : {false, true}) {
    const auto fake = std::make_shared<FakeServable>(2);
    ModelOptions options = batching(4);
    if (!batches) options.queue.sizes.clear();
    Model model("m", 1, fake, options);
    std::atomic<int> right{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int k = 0; k < 200; ++k) {
          const float v = static_cast<float>(1000 * t + k);
          if (k == 50) fake->expected_ns = 10;  // from here on some run on the thread that submits them
          model.submit(call_of(v, [&, v](Answer a) {
            ++(!a.error && a.outputs[0].f64(0) == 2 * v && a.outputs[0].f64(1) == 2 * v + 2 ? right : wrong);
          }));
        }
      });
    for (std::thread& t : threads) t.join();
    wait_for([&] { return right + wrong == 800; });
    EXPECT_EQ(wrong, 0);
    EXPECT_FALSE(fake->overlapped);
    wait_for([&] { return model.open() == 0; });
    const ModelStatistics s = model.statistics();
    EXPECT_EQ(s.success.count, 800u);
    EXPECT_EQ(s.rows, 800u);
  }
}

TEST(Model, APoisonedRequestCostsNoOtherItsAnswer) {
  const auto fake = std::make_shared<FakeServable>();
  Model model("m", 1, fake, batching(8));
  fake->close();
  std::atomic<int> right{0}, refused{0};
  const auto count = [&](Answer a) { ++(a.error ? refused : right); };
  model.submit(call_of(1, count));
  wait_for([&] { return model.pending() == 0; });  // it runs, up to the gate
  for (const float v : {2.f, -5.f, 3.f}) model.submit(call_of(v, count));
  fake->open();
  wait_for([&] { return right + refused == 4; });
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(model.statistics().rerun_alone, 3u);
}

TEST(Model, CancelsAndFullQueues) {
  const auto fake = std::make_shared<FakeServable>();
  ModelOptions options;
  options.queue.level.max_queue = 2;
  Model model("m", 1, fake, options);
  fake->close();
  std::atomic<int> answered{0}, cancelled{0}, full{0};
  const auto count = [&](Answer a) {
    if (!a.error)
      ++answered;
    else
      ++(a.failure == FailureReason::kCanceled ? cancelled : full);
  };
  model.submit(call_of(1, count));
  wait_for([&] { return model.pending() == 0; });
  const CallPtr second = call_of(2, count);
  model.submit(second);
  model.submit(call_of(3, count));
  model.submit(call_of(4, count));
  EXPECT_EQ(full, 1);
  model.cancel(second);
  model.cancel(second);
  EXPECT_EQ(cancelled, 1);
  fake->open();
  wait_for([&] { return answered == 2; });
  EXPECT_EQ(fake->runs, 2u) << "what was cancelled never ran";
}

TEST(Model, TimeoutsAreAnswered) {
  const auto fake = std::make_shared<FakeServable>();
  ModelOptions options;
  options.queue.level.timeout_override = true;
  Model model("m", 1, fake, options);
  fake->close();
  std::atomic<int> late{0}, answered{0};
  const auto count = [&](Answer a) { ++(a.error && a.failure == FailureReason::kTimeout ? late : answered); };
  model.submit(call_of(1, count));
  wait_for([&] { return model.pending() == 0; });
  const CallPtr second = call_of(2, count);
  second->timeout_ns = 1000;
  model.submit(second);
  wait_for([&] { return late == 1; });  // while the only slot still works
  fake->open();
  wait_for([&] { return answered == 1; });
}

// Calls of one batch, which waits at the gate; the first of them ran alone before.
struct Shared {
  explicit Shared(LevelPolicy level) {
    fake->interruptible = true;
    ModelOptions options = batching(4);
    options.queue.level = level;
    model.emplace("m", 1, fake, options);
    fake->close();
    model->submit(call_of(9, [](const Answer&) {}));
    wait_for([&] { return fake->entered == 1; });
  }
  CallPtr submit(int64_t timeout_ns = 0) {
    const CallPtr call = call_of(1, [this](const Answer& a) {
      ++(!a.error ? answered : a.failure == FailureReason::kCutRun ? late : cancelled);
    });
    call->timeout_ns = timeout_ns;
    model->submit(call);
    return call;
  }
  void begin() {  // the calls submitted so far become a batch
    fake->let_one();
    wait_for([&] { return fake->entered == 2; });
  }
  std::shared_ptr<FakeServable> fake = std::make_shared<FakeServable>();
  std::optional<Model> model;
  std::atomic<int> answered{0}, late{0}, cancelled{0};
};

TEST(Model, ABatchEndsOnceAllItsClientsHaveGone) {
  Shared s({});
  const CallPtr a = s.submit(), b = s.submit();
  s.begin();
  s.model->cancel(a);
  s.model->cancel(a);
  EXPECT_EQ(s.fake->cancels, 0u) << "another client waits for it";
  EXPECT_EQ(s.cancelled, 0);
  s.model->cancel(b);
  wait_for([&] { return s.cancelled == 2; });
  EXPECT_EQ(s.fake->runs, 1u) << "it is not repeated";
  s.fake->open();
  s.submit();
  wait_for([&] { return s.answered == 1; });
}

TEST(Model, ARunEndsWhenTheTimeOfAllItsCallsIsOver) {
  LevelPolicy level;
  level.timeout_override = true;
  Shared s(level);
  const CallPtr a = s.submit(2'000'000'000), b = s.submit(2'200'000'000), c = s.submit(2'500'000'000);
  s.begin();
  s.model->cancel(b);
  wait_for([&] { return s.late + s.cancelled == 3; });
  EXPECT_EQ(s.late, 2);
  EXPECT_GE(now_ns() - c->arrived_ns, 2'500'000'000) << "the last of them had time until then";
  EXPECT_EQ(s.fake->runs, 1u);
}

TEST(Model, ARunWithACallWithoutALimitGoesOn) {
  for (const bool delayed : {false, true}) {
    LevelPolicy level;
    level.timeout_override = true;
    level.delay_expired = delayed;
    Shared s(level);
    s.submit(1'000'000'000);
    s.submit(delayed ? 1'000'000'000 : 0);
    s.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    EXPECT_EQ(s.fake->cancels, 0u);
    s.fake->open();
    wait_for([&] { return s.answered == 2; });
  }
}

TEST(Model, AnswersKeepTheOrderOfCalls) {
  const auto fake = std::make_shared<FakeServable>(4);
  ModelOptions options;
  options.preserve_order = true;
  Model model("m", 1, fake, options);
  std::mutex mutex;
  std::vector<int> order;
  for (int k = 0; k < 500; ++k)
    model.submit(call_of(static_cast<float>(k), [&, k](Answer) {
      const std::lock_guard<std::mutex> lock(mutex);
      order.push_back(k);
    }));
  wait_for([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return order.size() == 500;
  });
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  wait_for([&] { return model.open() == 0; });
}

TEST(Model, AStuckModelIsFound) {
  const auto fake = std::make_shared<FakeServable>();
  Model model("m", 1, fake, {});
  EXPECT_FALSE(model.stuck(1000, 10));
  EXPECT_FALSE(model.stuck(2000, 10)) << "nothing is under way";
  fake->expected_ns = 50000;  // what it should take
  fake->close();
  std::atomic<int> answered{0};
  model.submit(call_of(1, [&](Answer) { ++answered; }));
  wait_for([&] { return fake->entered == 1; });
  EXPECT_FALSE(model.stuck(90000, 10)) << "a run may take what it should, and as much again";
  EXPECT_TRUE(model.stuck(200000, 10));
  fake->open();
  wait_for([&] { return answered == 1 && model.open() == 0; });
  EXPECT_FALSE(model.stuck(300000, 10));
}

}  // namespace
}  // namespace peri::serve
