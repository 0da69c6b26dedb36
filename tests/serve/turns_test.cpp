// Models that take turns, in simulated time: time is shared evenly whatever the runs' lengths and numbers, nothing
// stands idle while somebody wants to run, and who is alone waits for nobody.
#include "serve/queue/turns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <vector>

#include "serve/queue/model.hpp"
#include "tests/serve/fake_servable.hpp"

namespace peri::serve {
namespace {

struct Simulated {
  int64_t run_ns = 0;
  int slots = 1;
  int64_t wants = 0;  // runs, at the beginning
  int64_t known_ns = 0;
  Turns::Claim claim = {};
  std::shared_ptr<Turns::Share> share = {};
  int running = 0;
  int64_t used = 0, done = 0, first_ns = -1;
};

std::map<std::string, int64_t> most_held;  // of each resource at once, in the last simulation

// Runs all until `end`; the most that ran at once.
int simulate(Turns& turns, std::vector<Simulated>& models, int64_t end) {
  struct Ending {
    int64_t at;
    size_t model;
    Turns::Run run;
    bool operator<(const Ending& o) const { return at > o.at; }
  };
  std::priority_queue<Ending> under_way;
  int64_t now = 1;
  int most = 0;
  most_held.clear();
  const auto begin = [&](size_t k) {
    Simulated& m = models[k];
    while (m.wants > 0 && m.running < m.slots && turns.may(*m.share, now, true)) {
      under_way.push({now + m.run_ns, k, turns.begin(*m.share, now, m.known_ns)});
      --m.wants;
      ++m.running;
      if (m.first_ns < 0) m.first_ns = now;
    }
    if (m.wants == 0) turns.pass(*m.share);
    most = std::max(most, static_cast<int>(under_way.size()));
    std::map<std::string, int64_t> held;
    for (const Simulated& each : models)
      for (const auto& [name, hold] : each.claim.holds) held[name] += hold.copies * each.running;
    for (const auto& [name, copies] : held) most_held[name] = std::max(most_held[name], copies);
  };
  for (size_t k = 0; k < models.size(); ++k) {
    models[k].share = *turns.join(models[k].claim);
    models[k].share->on_turn([&, k] { begin(k); });
  }
  for (size_t k = 0; k < models.size(); ++k) begin(k);
  while (!under_way.empty() && now < end) {
    const Ending e = under_way.top();
    under_way.pop();
    now = e.at;
    Simulated& m = models[e.model];
    --m.running;
    m.used += m.run_ns;
    ++m.done;
    turns.end(*m.share, e.run, now, m.wants > 0);
    begin(e.model);
  }
  return most;
}

TEST(Turns, TimeIsSharedWhateverRunsTake) {
  Turns turns(2);
  std::vector<Simulated> models = {{.run_ns = 10000000, .slots = 8, .wants = 100000},
                                   {.run_ns = 1000000, .slots = 4, .wants = 100000},
                                   {.run_ns = 3000000, .slots = 2, .wants = 100000}};
  EXPECT_LE(simulate(turns, models, 3000000000), 8);
  for (const Simulated& m : models) EXPECT_NEAR(static_cast<double>(m.used), 2e9, 0.1e9) << m.run_ns;
}

TEST(Turns, TimeIsSharedByWeight) {
  Turns turns(2);
  std::vector<Simulated> models = {
      {.run_ns = 2000000, .slots = 4, .wants = 100000, .claim = {.weight = 0.5, .holds = {}}},
      {.run_ns = 1000000, .slots = 4, .wants = 100000, .claim = {.weight = 1, .holds = {}}},
      {.run_ns = 3000000, .slots = 4, .wants = 100000, .claim = {.weight = 2, .holds = {}}}};
  simulate(turns, models, 3500000000);
  EXPECT_NEAR(static_cast<double>(models[0].used), 4e9, 0.2e9);
  EXPECT_NEAR(static_cast<double>(models[1].used), 2e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(models[2].used), 1e9, 0.1e9);
}

// Slots and turns there are for all: what bounds them is what their runs hold.
TEST(Turns, ResourcesBoundWhatRunsAtOnce) {
  const auto holding = [](std::initializer_list<std::pair<const std::string, Turns::Hold>> list) {
    return Turns::Claim{.weight = 1, .holds = list};
  };
  std::vector<Simulated> models = {
      {.run_ns = 1000000, .slots = 8, .wants = 500, .claim = holding({{"a", {3, false}}})},
      {.run_ns = 1000000, .slots = 8, .wants = 500, .claim = holding({{"a", {1, false}}, {"b", {1, true}}})},
      {.run_ns = 1000000, .slots = 8, .wants = 500, .claim = holding({{"b", {1, true}}})},
      {.run_ns = 1000000, .slots = 2, .wants = 500}};
  Turns turns(100, {{"a", 4}});
  simulate(turns, models, int64_t{1} << 60);
  for (const Simulated& m : models) EXPECT_EQ(m.done, 500);
  EXPECT_EQ(most_held["a"], 4) << "as many as were said, and all of them";
  EXPECT_EQ(most_held["b"], 1) << "the most that one asks for";
  std::vector<Simulated> many = {
      {.run_ns = 1000000, .slots = 8, .wants = 500, .claim = holding({{"a", {3, false}}})},
      {.run_ns = 1000000, .slots = 8, .wants = 100000, .claim = holding({{"a", {1, false}}})}};
  Turns scarce(100, {{"a", 3}});
  simulate(scarce, many, 500000000);
  EXPECT_NEAR(static_cast<double>(many[0].used), 375e6, 20e6) << "who needs many is not passed by";
  EXPECT_NEAR(static_cast<double>(many[1].used), 375e6, 20e6) << "three at once, for a third of the time";
  Turns devices(100, {{"a", 4}}, 2);
  std::vector<Simulated> two = {{.run_ns = 1000000, .slots = 8, .wants = 500, .claim = holding({{"a", {3, false}}})}};
  simulate(devices, two, int64_t{1} << 60);
  EXPECT_EQ(most_held["a"], 6) << "each device has its own";
}

TEST(Turns, ResourcesThatAreNeverThereAreRefused) {
  Turns turns(2, {{"a", 4}});
  const auto joins = [&](int64_t copies, bool global) {
    return turns.join({.weight = 1, .holds = {{"a", {copies, global}}}});
  };
  const auto too_many = joins(5, false);
  ASSERT_FALSE(too_many.ok());
  EXPECT_NE(too_many.error().text().find("hold 5 of the resource 'a', of which there are 4"), std::string::npos);
  ASSERT_TRUE(joins(4, false).ok());
  EXPECT_FALSE(joins(1, true).ok()) << "it is each device's own already";
}

TEST(Turns, WhatOneLeavesTheOthersHave) {
  Turns turns(2);
  std::vector<Simulated> models = {{.run_ns = 1000000, .slots = 1, .wants = 100000},
                                   {.run_ns = 1000000, .slots = 8, .wants = 100000},
                                   {.run_ns = 1000000, .slots = 8, .wants = 10}};
  simulate(turns, models, 1000000000);
  EXPECT_EQ(models[2].done, 10);
  EXPECT_NEAR(static_cast<double>(models[0].used), 1e9, 0.05e9) << "half of two is all that one slot can have";
  EXPECT_NEAR(static_cast<double>(models[1].used), 1e9, 0.05e9);
}

TEST(Turns, AloneAModelHasAllItsSlots) {
  Turns turns(1);
  std::vector<Simulated> models = {{.run_ns = 1000000, .slots = 5, .wants = 100}};
  EXPECT_EQ(simulate(turns, models, 1000000000), 5);
  EXPECT_EQ(models[0].done, 100);
}

TEST(Turns, ShortRunsGoAhead) {
  Turns turns(1);
  std::vector<Simulated> models = {{.run_ns = 5000, .slots = 32, .wants = 100000, .known_ns = 5000},
                                   {.run_ns = 5000, .slots = 32, .wants = 100000, .known_ns = 5000}};
  EXPECT_GE(simulate(turns, models, 1000000), 16) << "a few of them at once count as one";
  EXPECT_NEAR(static_cast<double>(models[0].done), static_cast<double>(models[1].done), 64);
}

TEST(Turns, RunsThatNeverEndHoldNobodyForEver) {
  Turns turns(1);
  const auto stuck = turns.join(), other = turns.join();
  ASSERT_TRUE(turns.may(*stuck, 1000, true));
  const Turns::Run run = turns.begin(*stuck, 1000, 0);
  EXPECT_FALSE(turns.may(*other, 2000, true));
  EXPECT_TRUE(turns.may(*other, 3000000000, true));
  turns.end(*other, turns.begin(*other, 3000000000, 0), 3000000001, false);
  turns.end(*stuck, run, 3000000002, false);
  turns.leave(stuck);
  EXPECT_TRUE(turns.may(*other, 3000000003, true));
}

CallPtr call_of(std::function<void(Answer)> done) {
  auto call = std::make_shared<Call>();
  call->inputs = {Tensor::of_f32({1, 2}, std::vector<float>{1, 2})};
  call->done = std::move(done);
  return call;
}

void wait_for(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

// The first has all slots of the device and a long queue when the second comes.
TEST(Turns, AModelWithALongQueueDoesNotShutOutAnother) {
  ModelOptions options;
  options.turns = std::make_shared<Turns>(1);
  const auto busy = std::make_shared<FakeServable>(4), other = std::make_shared<FakeServable>();
  busy->close();
  other->close();
  std::atomic<int> answered{0}, answered_other{0}, before{-1};
  other->on_entry = [&] { before = answered.load(); };
  Model first("first", 1, busy, options), second("second", 1, other, options);
  for (int k = 0; k < 20; ++k) first.submit(call_of([&](Answer a) { answered += a.error ? 0 : 1; }));
  wait_for([&] { return busy->entered == 4; });
  second.submit(call_of([&](Answer a) { answered_other += a.error ? 0 : 1; }));
  wait_for([&] { return options.turns->waiting() == 1; });
  EXPECT_EQ(other->entered, 0u) << "it waits for its turn";
  EXPECT_EQ(second.pending(), 1);
  busy->open();
  wait_for([&] { return before >= 0; });
  EXPECT_LE(before, 4) << "it comes when one of the runs has ended that were under way";
  other->open();
  wait_for([&] { return answered == 20 && answered_other == 1; });
}

TEST(Turns, WhatIsCancelledNeedsNoTurn) {
  ModelOptions options;
  options.turns = std::make_shared<Turns>(1);
  const auto busy = std::make_shared<FakeServable>(2), other = std::make_shared<FakeServable>();
  busy->close();
  Model first("first", 1, busy, options);
  std::atomic<int> answered{0}, cancelled{0};
  for (int k = 0; k < 6; ++k) first.submit(call_of([&](Answer a) { answered += a.error ? 0 : 1; }));
  wait_for([&] { return busy->entered == 2; });
  {
    Model second("second", 1, other, options);
    const CallPtr call = call_of([&](Answer a) { cancelled += a.error ? 1 : 0; });
    second.submit(call);
    second.submit(call_of([&](Answer a) { cancelled += a.error ? 1 : 0; }));
    second.cancel(call);
    EXPECT_EQ(cancelled, 1);
  }
  EXPECT_EQ(cancelled, 2) << "it went with its model";
  busy->open();
  wait_for([&] { return answered == 6; });
  EXPECT_EQ(other->entered, 0u);
}

}  // namespace
}  // namespace peri::serve
