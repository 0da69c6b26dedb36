// A model that adds up what each sequence sends: side by side from many threads, each sum is its own; failures and
// cancels end a sequence and say so.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "serve/queue/model.hpp"

namespace peri::serve {
namespace {

// y = t = s + x on f32[n,1]; s and t are the state. Values below zero are refused; a gate holds runs back.
class Sums final : public runtime::Servable {
 public:
  Sums() {
    for (const char* name : {"x", "s", "y", "t"}) {
      plan::Port p;
      p.name = name;
      p.dtype = DType::kF32;
      p.shape = {Dim::symbol("batch"), Dim(1)};
      (in_.size() < 2 ? in_ : out_).push_back(p);
    }
  }
  std::span<const plan::Port> inputs() const override { return in_; }
  std::span<const plan::Port> outputs() const override { return out_; }
  int slots() const override { return 2; }
  bool cancel(uint64_t) override { return false; }
  runtime::Cost cost(std::span<const Tensor>) const override { return {-1, 4}; }
  uint64_t progress() const override { return runs; }
  void submit(uint64_t, std::vector<Tensor> t, std::shared_ptr<runtime::Sink> sink) override {
    ++entered;
    while (closed) std::this_thread::yield();
    Tensor y = *Tensor::zeros(DType::kF32, t[0].dims());
    bool bad = false;
    for (int64_t k = 0; k < y.numel(); ++k) {
      bad = bad || t[0].f64(k) < 0;
      y.set_f64(k, t[0].f64(k) + t[1].f64(k));
    }
    ++runs;
    if (bad) return sink->answer(invalid("a value below zero"), true);
    sink->answer(std::vector<Tensor>{y, y}, true);
  }
  void set_state_type(DType type) { in_[1].dtype = type; }
  std::atomic<uint64_t> runs{0}, entered{0};
  std::atomic<bool> closed{false};

 private:
  std::vector<plan::Port> in_, out_;
};

ModelOptions options(const std::shared_ptr<Sums>& sums, int64_t slots) {
  const auto config = parse_model_config(
      "max_batch_size: 4 sequence_batching { state { input_name: \"s\" output_name: \"t\" dims: 1 } }", "f");
  ModelOptions o;
  o.form = *Form::make(*config, sums->inputs(), sums->outputs(), "");
  o.sequences = SequencePolicy{.slots = slots, .idle_ns = 60'000'000'000};
  o.queue.sizes = {1, 2, 3, 4};
  o.queue.level.timeout_override = true;
  o.queue.most_waiting = slots;
  return o;
}

CallPtr call_of(uint64_t id, float x, bool start, bool end, std::function<void(Answer)> done) {
  auto call = std::make_shared<Call>();
  call->inputs = {Tensor::of_f32({1, 1}, std::vector<float>{x})};
  call->step = {{"", id}, start, end};
  call->done = std::move(done);
  return call;
}

void wait_for(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

TEST(ModelSequences, EachSumIsItsOwn) {
  const auto sums = std::make_shared<Sums>();
  Model model("m", 1, sums, options(sums, 3));
  EXPECT_EQ(model.inputs().size(), 1u);
  EXPECT_EQ(model.outputs().size(), 1u);
  std::atomic<int> right{0}, wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        float sum = 0;
        for (int k = 0; k < 20; ++k) {
          const float x = static_cast<float>(t) + static_cast<float>(k);
          sum += x;
          model.submit(call_of(t, x, k == 0, k == 19, [&, sum](Answer a) {
            ++(!a.error && a.outputs.size() == 1 && a.outputs[0].f64(0) == sum ? right : wrong);
          }));
        }
      }
    });
  for (std::thread& t : threads) t.join();
  wait_for([&] { return right + wrong == 800; });
  EXPECT_EQ(wrong, 0);
  const SequenceCounts c = *model.sequences();
  EXPECT_EQ(c.started, 40u);
  EXPECT_EQ(c.ended, 40u);
  EXPECT_EQ(c.active + c.backlog, 0);
  EXPECT_EQ(model.open(), 0);
}

TEST(ModelSequences, WhatFailsEndsItsSequence) {
  const auto sums = std::make_shared<Sums>();
  Model model("m", 1, sums, options(sums, 2));
  std::mutex mutex;
  std::map<int, std::string> said;
  const auto note = [&](int number) {
    return [&, number](Answer a) {
      const std::lock_guard<std::mutex> lock(mutex);
      said[number] = a.error ? a.error->message : std::to_string(static_cast<int>(a.outputs[0].f64(0)));
    };
  };
  const auto count = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return said.size();
  };
  sums->closed = true;
  model.submit(call_of(1, 5, true, false, note(1)));
  wait_for([&] { return sums->entered == 1; });
  model.submit(call_of(1, -1, false, false, note(2)));
  model.submit(call_of(1, 6, false, false, note(3)));
  model.submit(call_of(2, 7, true, false, note(4)));
  const CallPtr cancelled = call_of(2, 8, false, false, note(5));
  model.submit(cancelled);
  model.submit(call_of(2, 9, false, true, note(6)));
  model.cancel(cancelled);
  sums->closed = false;
  wait_for([&] { return count() == 6; });
  EXPECT_EQ(said[1], "5");
  EXPECT_EQ(said[2], "a value below zero");
  EXPECT_NE(said[3].find("a request that failed: a value below zero"), std::string::npos) << said[3];
  EXPECT_EQ(said[4], "7");
  EXPECT_NE(said[5].find("cancelled"), std::string::npos) << said[5];
  EXPECT_NE(said[6].find("a request that failed"), std::string::npos) << said[6];
  model.submit(call_of(1, 1, false, false, note(7)));
  wait_for([&] { return count() == 7; });
  EXPECT_NE(said[7].find("inference request for sequence 1 to model 'm' must specify the START flag"),
            std::string::npos);
  EXPECT_NE(said[7].find("below zero"), std::string::npos) << "and why";
  model.submit(call_of(0, 1, true, false, note(8)));
  wait_for([&] { return count() == 8; });
  EXPECT_NE(said[8].find("non-zero or non-empty correlation ID"), std::string::npos);
  wait_for([&] { return model.open() == 0; });
  EXPECT_EQ(model.sequences()->active, 0);
  EXPECT_EQ(model.sequences()->broken, 2u);
}

// Calls that are late together are refused one after the other, while other threads look for what is late too.
TEST(ModelSequences, LateCallsAreRefusedOnce) {
  const auto sums = std::make_shared<Sums>();
  Model model("m", 1, sums, options(sums, 1));
  std::atomic<bool> gates[3] = {};
  std::atomic<int> late{0}, right{0};
  const auto submit_late = [&](uint64_t id, int gate) {
    const CallPtr call = call_of(id, 1, true, true, [&, gate](const Answer& a) {
      late += a.error && a.failure == FailureReason::kTimeout ? 1 : 0;
      while (!gates[gate]) std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
    call->timeout_ns = 1;
    model.submit(call);
  };
  sums->closed = true;  // the first of three threads runs, and keeps the only slot
  model.submit(call_of(1, 1, true, true, [&](const Answer& a) { right += a.error ? 0 : 1; }));
  wait_for([&] { return sums->entered == 1; });
  for (const int k : {0, 1}) {  // the others are told to wait
    submit_late(static_cast<uint64_t>(2 + k), k);
    wait_for([&] { return late == k + 1; });
  }
  submit_late(4, 2);
  submit_late(5, 2);
  gates[0] = true;
  wait_for([&] { return late == 3; });  // that thread has taken both, and is at the first
  gates[1] = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for the other to look
  gates[2] = true;
  wait_for([&] { return late == 4; });
  sums->closed = false;
  wait_for([&] { return right == 1 && model.open() == 0; });
  EXPECT_EQ(model.sequences()->broken, 4u);
}

// Each that cannot take its turn gives it to the next: no matter how many, they are refused one after the other.
TEST(ModelSequences, ABacklogThatCannotRunIsRefused) {
  const auto sums = std::make_shared<Sums>();
  ModelOptions o = options(sums, 1);
  const auto config = parse_model_config(
      "max_batch_size: 4 sequence_batching { control_input { name: \"s\" control { kind: CONTROL_SEQUENCE_CORRID "
      "data_type: TYPE_INT32 } } }",
      "f");
  sums->set_state_type(DType::kI32);
  o.form = *Form::make(*config, sums->inputs(), sums->outputs(), "");
  Model model("m", 1, sums, std::move(o));
  std::atomic<int> right{0}, refused{0};
  sums->closed = true;
  model.submit(call_of(1, 1, true, true, [&](const Answer& a) { right += a.error ? 0 : 1; }));
  wait_for([&] { return sums->entered == 1; });
  constexpr int kMany = 50000;
  for (int k = 0; k < kMany; ++k)
    model.submit(call_of((uint64_t{1} << 40) + static_cast<uint64_t>(k), 1, true, true, [&](const Answer& a) {
      refused += a.error && a.failure == FailureReason::kRejected ? 1 : 0;
    }));
  sums->closed = false;
  wait_for([&] { return right == 1 && refused == kMany; });
  wait_for([&] { return model.open() == 0; });
}

TEST(ModelSequences, OneThatGoesAnswersAll) {
  const auto sums = std::make_shared<Sums>();
  std::atomic<int> answered{0};
  {
    Model model("m", 1, sums, options(sums, 1));
    sums->closed = true;
    for (uint64_t id = 1; id <= 3; ++id)
      for (int k = 0; k < 5; ++k) model.submit(call_of(id, 1, k == 0, k == 4, [&](const Answer&) { ++answered; }));
    wait_for([&] { return sums->entered == 1; });
    sums->closed = false;
  }
  EXPECT_EQ(answered, 15);
}
}  // namespace
}  // namespace peri::serve
