// Sequences in simulated time: slots, backlog, idling, failures, and what must hold of any seeded traffic: one request
// of a sequence at a time, in its order, on its own state.
#include "serve/queue/sequences.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.hpp"
#include "serve/queue/scheduler.hpp"

namespace peri::serve {
namespace {

constexpr int64_t kUs = 1000;

SequenceStep step(uint64_t id, bool start = false, bool end = false) { return {{"", id}, start, end}; }

using Turns = std::vector<uint64_t>;

TEST(Sequences, TurnsFollowEachOther) {
  Sequences s({.slots = 2});
  EXPECT_EQ(s.submit(1, step(7, true), 0, 0), SequenceVerdict::kTaken);
  EXPECT_EQ(s.submit(2, step(7), 0, 0), SequenceVerdict::kTaken);
  EXPECT_EQ(s.submit(3, step(7, false, true), 0, 0), SequenceVerdict::kTaken);
  EXPECT_EQ(s.take_turns(), Turns{1});
  EXPECT_TRUE(s.state(1).empty());
  s.done(1, {*Tensor::zeros(DType::kF32, {3})}, 0);
  EXPECT_EQ(s.take_turns(), Turns{2});
  EXPECT_EQ(s.state(2)[0].numel(), 3) << "the second gets what the first left";
  s.done(2, {}, 0);
  EXPECT_EQ(s.take_turns(), Turns{3});
}

TEST(Sequences, WhoGoesOnWithOneOfAnotherModelIsTold) {
  Sequences before({.slots = 3}), after({.slots = 3});
  before.submit(1, step(7, true), 0, 0);
  before.submit(2, step(8, true), 0, 0);
  before.submit(3, step(9, true, true), 0, 0);
  before.take_turns();
  before.done(1, {}, 0);
  before.done(3, {}, 0);
  EXPECT_EQ(before.open().size(), 2u) << "7 waits for more, 8 runs, 9 is over";
  after.submit(4, step(8, true), 0, 0);
  after.lost(before.open(), "loaded anew");
  EXPECT_EQ(after.ended_why(step(7).id), "loaded anew");
  EXPECT_EQ(after.ended_why(step(8).id), "") << "it began here as well";
  EXPECT_EQ(after.ended_why(step(9).id), "");
  EXPECT_EQ(after.submit(5, step(7), 0, 0), SequenceVerdict::kNoStart);
  EXPECT_EQ(after.submit(6, step(7, true), 0, 0), SequenceVerdict::kTaken);
  EXPECT_EQ(after.ended_why(step(7).id), "");
}

TEST(Sequences, WhatIsRefused) {
  Sequences s({.slots = 1, .max_waiting = 1});
  EXPECT_EQ(s.submit(1, step(0, true), 0, 0), SequenceVerdict::kNoId);
  EXPECT_EQ(s.submit(2, step(7), 0, 0), SequenceVerdict::kNoStart);
  EXPECT_EQ(s.submit(3, step(7, true, true), 0, 0), SequenceVerdict::kTaken);
  EXPECT_EQ(s.submit(4, step(7), 0, 0), SequenceVerdict::kNoStart) << "behind its end";
  EXPECT_EQ(s.submit(5, step(8, true), 0, 0), SequenceVerdict::kTaken) << "in the backlog";
  EXPECT_EQ(s.submit(6, step(8), 0, 0), SequenceVerdict::kFull);
  EXPECT_EQ(s.submit(7, step(8), 0, 0), SequenceVerdict::kNoStart) << "a request of it is missing";
  EXPECT_NE(s.ended_why({"", 8}).find("queue full"), std::string::npos);
  EXPECT_EQ(s.submit(9, {{"7", 0}, false, false}, 0, 0), SequenceVerdict::kNoStart) << "a text is not a number";
}

TEST(Sequences, WhyTheLastThousandEndedIsKnown) {
  Sequences s({.slots = 1});
  uint64_t request = 0;
  const auto end = [&](uint64_t id, const std::string& why) {
    EXPECT_EQ(s.submit(++request, step(id, true), 0, 0), SequenceVerdict::kTaken);
    EXPECT_EQ(s.take_turns(), Turns{request});
    EXPECT_TRUE(s.fail(request, why, 0).empty());
  };
  for (int k = 0; k < 3; ++k) end(1, "the first " + std::to_string(k));
  for (uint64_t id = 2; id <= 1024; ++id) end(id, "another");
  EXPECT_EQ(s.ended_why({"", 1}), "the first 2") << "of 1024 it is the oldest";
  end(1025, "one more");
  EXPECT_EQ(s.ended_why({"", 1}), "");
  EXPECT_EQ(s.ended_why({"", 2}), "another");
}

TEST(Sequences, AnotherTenantsSequenceIsAnother) {
  Sequences s({.slots = 2});
  EXPECT_EQ(s.submit(1, step(7, true), 0, 0), SequenceVerdict::kTaken);
  SequenceStep other = step(7);
  other.id.tenant = 1;
  EXPECT_EQ(s.submit(2, other, 0, 0), SequenceVerdict::kNoStart);
  other.start = true;
  EXPECT_EQ(s.submit(3, other, 0, 0), SequenceVerdict::kTaken);
  EXPECT_EQ(s.take_turns(), (Turns{1, 3})) << "side by side";
  s.done(1, {*Tensor::zeros(DType::kF32, {3})}, 0);
  EXPECT_EQ(s.counts().state_bytes, 12);
}

TEST(Sequences, ABacklogGetsSlotsInItsOrder) {
  Sequences s({.slots = 1});
  for (uint64_t k = 1; k <= 3; ++k) s.submit(k, step(k, true), 0, 0);
  s.submit(4, step(1, false, true), 0, 0);
  EXPECT_EQ(s.take_turns(), Turns{1});
  EXPECT_EQ(s.counts().backlog, 2);
  s.done(1, {}, 0);
  EXPECT_EQ(s.take_turns(), Turns{4});
  // The same name again waits behind those who came before.
  s.submit(5, step(1, true, true), 0, 0);
  s.done(4, {}, 0);
  EXPECT_EQ(s.take_turns(), Turns{2});
  EXPECT_EQ(s.expire(5 * kUs), Turns{});
  s.done(2, {}, 10 * kUs);
  EXPECT_EQ(s.take_turns(), Turns{}) << "it is open and keeps its slot";
  EXPECT_EQ(s.wake_ns(), 10 * kUs + 1'000'000'000);
  s.expire(10 * kUs + 1'000'000'000);
  EXPECT_EQ(s.take_turns(), Turns{3});
  EXPECT_NE(s.ended_why({"", 2}).find("without a request"), std::string::npos);
  EXPECT_EQ(s.submit(6, step(2), 0, 20 * kUs), SequenceVerdict::kNoStart);
  s.fail(3, "broken", 0);
  EXPECT_EQ(s.take_turns(), Turns{5});
  EXPECT_EQ(s.counts().idle, 1u);
}

TEST(Sequences, AFailureTakesWhatFollowsIt) {
  Sequences s({.slots = 1});
  s.submit(1, step(7, true), 0, 0);
  s.submit(2, step(7), 100, 0);
  s.submit(3, step(7), 0, 0);
  s.submit(4, step(7, true), 0, 0);
  s.submit(5, step(7), 0, 0);
  EXPECT_EQ(s.take_turns(), Turns{1});
  EXPECT_EQ(s.expire(99), Turns{});
  EXPECT_EQ(s.expire(100), Turns{2});
  EXPECT_EQ(s.fail(2, "late", 100), Turns{3});
  EXPECT_EQ(s.take_turns(), Turns{});
  s.done(1, {*Tensor::zeros(DType::kF32, {1})}, 100);
  EXPECT_EQ(s.take_turns(), Turns{4}) << "what begins anew is not its business";
  EXPECT_TRUE(s.state(4).empty());
  EXPECT_EQ(s.fail(4, "gone", 100), Turns{5});
  EXPECT_EQ(s.submit(6, step(7), 0, 100), SequenceVerdict::kNoStart);
  EXPECT_EQ(s.ended_why({"", 7}), "gone");
  EXPECT_EQ(s.waiting(), 0);
  EXPECT_EQ(s.counts().active, 0);
}

// Clients that send their sequences' requests as they like, with a scheduler behind the turns.
class Traffic {
 public:
  Traffic(uint64_t seed, int64_t slots, int64_t most)
      : rng_(seed),
        sequences_({.slots = slots, .idle_ns = 3000 * kUs}),
        scheduler_(policy(slots, most)),
        slots_(slots) {}

  void run() {
    for (int k = 0; k < 3000 && !testing::Test::HasFailure(); ++k) {
      now_ += static_cast<int64_t>(rng_.uniform() * 100) * kUs;
      if (rng_.uniform() < 0.6) send();
      if (rng_.uniform() < 0.3) answer();
      turns();
      ASSERT_LE(sequences_.counts().active, slots_);
    }
    for (int k = 0; k < 100000 && !(waiting_.empty() && running_.empty()); ++k) {
      now_ += 5000 * kUs;
      answer();
      turns();
    }
    EXPECT_TRUE(waiting_.empty() && running_.empty()) << "nothing waits for ever";
    now_ += 5000 * kUs;
    sequences_.expire(now_);
    EXPECT_EQ(sequences_.counts().active + sequences_.counts().backlog + sequences_.waiting(), 0);
  }

 private:
  struct Sent {
    uint64_t sequence = 0, number = 0;  // from 1 in its sequence
    bool start = false, end = false;
  };
  static QueuePolicy policy(int64_t slots, int64_t most) {
    QueuePolicy p;
    for (int64_t s = 1; s <= most; ++s) p.sizes.push_back(s);
    p.max_delay_ns = 200 * kUs;
    p.most_waiting = slots;
    return p;
  }
  void send() {
    const uint64_t name = 1 + static_cast<uint64_t>(rng_.uniform() * 12);
    Sent sent{name, 0, rng_.uniform() < 0.2, rng_.uniform() < 0.2};
    const SequenceVerdict v = sequences_.submit(++last_, step(name, sent.start, sent.end), 0, now_);
    EXPECT_EQ(v == SequenceVerdict::kTaken, sent.start || open_[name] > 0) << "request " << last_;
    if (v != SequenceVerdict::kTaken) return;
    sent.number = sent.start ? 1 : open_[name] + 1;
    open_[name] = sent.end ? 0 : sent.number;
    waiting_[last_] = sent;
  }
  void turns() {
    sequences_.expire(now_);
    for (auto& [name, number] : open_)  // what idled is over
      if (number > 0 && !sequences_.ended_why({"", name}).empty()) number = 0;
    for (const uint64_t id : sequences_.take_turns()) {
      const Sent& sent = waiting_.at(id);
      const auto& state = sequences_.state(id);
      EXPECT_EQ(state.empty() ? 0 : state[0].i64(0), static_cast<int64_t>(sent.number) - 1) << "request " << id;
      EXPECT_TRUE(at_turn_.insert(sent.sequence).second) << "two requests of sequence " << sent.sequence;
      Waiting w;
      w.id = id;
      ASSERT_EQ(scheduler_.submit(w, now_), Admission::kAccepted);
    }
    while (const auto cut = scheduler_.poll(now_)) {
      if (cut->reason == CutReason::kSequences) EXPECT_EQ(static_cast<int64_t>(cut->requests.size()), slots_);
      for (const Waiting& w : cut->requests) running_.push_back(w.id);
    }
  }
  void answer() {
    if (running_.empty()) return;
    const size_t k = static_cast<size_t>(rng_.uniform() * static_cast<double>(running_.size()));
    const uint64_t id = running_[k];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(k));
    const Sent sent = waiting_.at(id);
    waiting_.erase(id);
    at_turn_.erase(sent.sequence);
    const std::vector<int64_t> count = {static_cast<int64_t>(sent.number)};
    sequences_.done(id, {Tensor::of_i64({1}, count)}, now_);
  }

  Rng rng_;
  Sequences sequences_;
  Scheduler scheduler_;
  const int64_t slots_;
  int64_t now_ = 0;
  uint64_t last_ = 0;
  std::map<uint64_t, uint64_t> open_;  // requests of a sequence that may have more
  std::map<uint64_t, Sent> waiting_;   // and running
  std::vector<uint64_t> running_;
  std::set<uint64_t> at_turn_;
};

TEST(Sequences, HoldForAnyTraffic) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Traffic(seed, 1 + static_cast<int64_t>(seed % 9), 1 + static_cast<int64_t>(seed % 4)).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Sequences, ABatchOfEverySlotIsCutAtOnce) {
  QueuePolicy p;
  p.sizes = {1, 2, 3, 4, 5, 6, 7, 8};
  p.max_delay_ns = 1000 * kUs;
  p.most_waiting = 3;
  Scheduler s(p);
  Waiting w;
  for (w.id = 1; w.id <= 2; ++w.id) s.submit(w, 0);
  EXPECT_FALSE(s.poll(0)) << "the third may come";
  s.submit(w, 0);
  const auto cut = s.poll(0);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->requests.size(), 3u);
  EXPECT_EQ(cut->reason, CutReason::kSequences);
  EXPECT_EQ(cut_reason_name(cut->reason), "sequences");
}
}  // namespace
}  // namespace peri::serve
