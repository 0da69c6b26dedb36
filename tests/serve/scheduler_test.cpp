// The scheduler in simulated time: each cut's reason, deadlines, priorities, and what must hold of any seeded traffic.
#include "serve/queue/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.hpp"

namespace peri::serve {
namespace {

constexpr int64_t kUs = 1000;

QueuePolicy batching(int64_t most, int64_t delay_us = 0, std::vector<int64_t> preferred = {}) {
  QueuePolicy p;
  for (int64_t s = 1; s <= most; ++s) p.sizes.push_back(s);
  p.max_delay_ns = delay_us * kUs;
  p.preferred = std::move(preferred);
  return p;
}

Waiting request(uint64_t id, int64_t rows = 1, uint64_t key = 7) {
  Waiting w;
  w.id = id;
  w.rows = rows;
  w.key = key;
  w.bytes = 100 * rows;
  return w;
}

std::vector<uint64_t> ids(const Cut& cut) {
  std::vector<uint64_t> out;
  for (const Waiting& w : cut.requests) out.push_back(w.id);
  return out;
}

TEST(Scheduler, WithoutBatchesEachRunsAlone) {
  Scheduler s(QueuePolicy{});
  for (uint64_t k = 1; k <= 3; ++k) ASSERT_EQ(s.submit(request(k), 0), Admission::kAccepted);
  for (uint64_t k = 1; k <= 3; ++k) {
    const auto cut = s.poll(0);
    ASSERT_TRUE(cut);
    EXPECT_EQ(ids(*cut), std::vector<uint64_t>{k});
    EXPECT_EQ(cut->reason, CutReason::kAlone);
  }
  EXPECT_FALSE(s.poll(0));
}

TEST(Scheduler, WaitsForItsDelayAndNoLonger) {
  Scheduler s(batching(4, 100));
  s.submit(request(1), 0);
  s.submit(request(2), 50 * kUs);
  EXPECT_FALSE(s.poll(99 * kUs));
  EXPECT_EQ(s.wake_ns(99 * kUs), 100 * kUs);
  const auto cut = s.poll(100 * kUs);
  ASSERT_TRUE(cut);
  EXPECT_EQ(ids(*cut), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(cut->reason, CutReason::kDelay);
}

TEST(Scheduler, CutsAFullBatchAtOnce) {
  Scheduler s(batching(4, 1000));
  for (uint64_t k = 1; k <= 5; ++k) s.submit(request(k), 0);
  const auto cut = s.poll(0);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->requests.size(), 4u);
  EXPECT_EQ(cut->reason, CutReason::kFull);
  EXPECT_FALSE(s.poll(0)) << "the fifth waits for others";
}

TEST(Scheduler, CutsAPreferredSizeAtOnce) {
  Scheduler s(batching(8, 1000, {2, 4}));
  for (uint64_t k = 1; k <= 3; ++k) s.submit(request(k), 0);
  const auto cut = s.poll(0);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->requests.size(), 2u);
  EXPECT_EQ(cut->reason, CutReason::kFull);
}

TEST(Scheduler, AnotherShapeEndsABatch) {
  Scheduler s(batching(8, 1000));
  s.submit(request(1), 0);
  s.submit(request(2), 0);
  s.submit(request(3, 1, 8), 0);
  const auto cut = s.poll(0);
  ASSERT_TRUE(cut);
  EXPECT_EQ(ids(*cut), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(cut->reason, CutReason::kShape);
}

// The server's own question about its health comes at any time: between two requests of a batch, too.
TEST(Scheduler, AProbeEndsNoBatchAndWaitsForNone) {
  QueuePolicy policy = batching(2, 1000, {2});
  policy.priority_levels = policy.default_priority = 2;
  Scheduler s(policy);
  Waiting probe = request(9);
  probe.probe = true;
  s.submit(request(1), 0);
  s.submit(probe, 1);
  auto cut = s.poll(2);
  ASSERT_TRUE(cut) << "it waits for nothing";
  EXPECT_EQ(ids(*cut), std::vector<uint64_t>{9});
  EXPECT_EQ(cut->reason, CutReason::kAlone);
  EXPECT_FALSE(s.poll(2)) << "the first goes on waiting for others";
  s.submit(probe, 3);
  s.submit(request(2), 4);
  EXPECT_EQ(ids(*s.poll(5)), std::vector<uint64_t>{9});
  cut = s.poll(5);
  ASSERT_TRUE(cut);
  EXPECT_EQ(ids(*cut), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(cut->reason, CutReason::kFull);
  s.submit(probe, 6);
  EXPECT_TRUE(s.cancel(9));
  EXPECT_EQ(s.waiting(), 0);
}

TEST(Scheduler, BytesEndABatch) {
  QueuePolicy p = batching(8, 1000);
  p.max_batch_bytes = 250;
  Scheduler s(p);
  for (uint64_t k = 1; k <= 3; ++k) s.submit(request(k), 0);
  const auto cut = s.poll(0);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->requests.size(), 2u);
  EXPECT_EQ(cut->reason, CutReason::kMemory);
}

TEST(Scheduler, ADeadlineCutsBeforeItIsMissed) {
  QueuePolicy p = batching(8, 1000);
  p.level.timeout_override = true;
  Scheduler s(p);
  Waiting w = request(1);
  w.timeout_ns = 500 * kUs;
  w.expected_ns = 100 * kUs;
  s.submit(w, 0);
  EXPECT_FALSE(s.poll(399 * kUs));
  EXPECT_EQ(s.wake_ns(0), 400 * kUs);
  const auto cut = s.poll(400 * kUs);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->reason, CutReason::kDeadline);
}

TEST(Scheduler, ExpiredRequestsAreRefusedOrDelayed) {
  for (const bool delay : {false, true}) {
    QueuePolicy p;
    p.level.timeout_ns = 100 * kUs;
    p.level.delay_expired = delay;
    Scheduler s(p);
    s.submit(request(1), 0);
    s.submit(request(2), 50 * kUs);
    const auto over = s.expire(100 * kUs);
    EXPECT_EQ(over.size(), delay ? 0u : 1u);
    const auto cut = s.poll(100 * kUs);
    ASSERT_TRUE(cut);
    EXPECT_EQ(ids(*cut), std::vector<uint64_t>{2}) << "what is in time goes first";
    EXPECT_EQ(s.waiting(), delay ? 1 : 0);
  }
}

TEST(Scheduler, UrgentRequestsGoFirst) {
  QueuePolicy p;
  p.priority_levels = 2;
  p.default_priority = 2;
  Scheduler s(p);
  s.submit(request(1), 0);
  Waiting urgent = request(2);
  urgent.priority = 1;
  s.submit(urgent, 1);
  EXPECT_EQ(ids(*s.poll(2)), std::vector<uint64_t>{2});
  EXPECT_EQ(ids(*s.poll(2)), std::vector<uint64_t>{1});
  urgent.priority = 3;
  EXPECT_EQ(s.submit(urgent, 3), Admission::kNoSuchPriority);
}

TEST(Scheduler, AFullQueueRefuses) {
  QueuePolicy p;
  p.level.max_queue = 2;
  Scheduler s(p);
  EXPECT_EQ(s.submit(request(1), 0), Admission::kAccepted);
  EXPECT_EQ(s.submit(request(2), 0), Admission::kAccepted);
  EXPECT_EQ(s.submit(request(3), 0), Admission::kQueueFull);
  EXPECT_TRUE(s.cancel(1));
  EXPECT_FALSE(s.cancel(1));
  EXPECT_EQ(s.submit(request(3), 0), Admission::kAccepted);
}

TEST(Scheduler, OnlyAllowedSizesAreMade) {
  QueuePolicy p = batching(8);
  p.sizes = {1, 2, 4};
  Scheduler s(p);
  for (uint64_t k = 1; k <= 3; ++k) s.submit(request(k), 0);
  EXPECT_EQ(s.poll(0)->requests.size(), 2u);
  EXPECT_EQ(s.poll(0)->requests.size(), 1u);
  s.submit(request(4, 3), 0);  // its own rows are no allowed size: alone
  s.submit(request(5), 0);
  const auto cut = s.poll(0);
  EXPECT_EQ(ids(*cut), std::vector<uint64_t>{4});
  EXPECT_EQ(cut->reason, CutReason::kAlone);
}

// Any traffic: each request is cut, cancelled or expired exactly once, in order within its level; no batch breaks a
// rule; none waits longer than it may while a slot is free; equal seeds give equal cuts.
struct Trace {
  std::vector<uint64_t> cut;
  uint64_t hash = 0;
};

Trace run_seed(uint64_t seed) {
  Rng rng(seed);
  QueuePolicy p = batching(1 + rng.below(8), rng.below(3) * 50);
  if (rng.below(2)) p.preferred = {p.sizes.back()};
  if (rng.below(3) == 0) std::erase_if(p.sizes, [&](int64_t s) { return s == 3 || s == 5; });
  p.priority_levels = static_cast<int>(1 + rng.below(3));
  p.default_priority = 1;
  p.level.max_queue = rng.below(2) ? 5 : 0;
  p.level.timeout_override = true;
  p.level.timeout_ns = rng.below(2) ? 400 * kUs : 0;
  p.level.delay_expired = rng.below(4) == 0;
  Scheduler s(p);
  Trace out;
  std::set<uint64_t> open;
  int64_t now = 0;
  for (uint64_t id = 1; id < 400; ++id) {
    now += rng.below(60) * kUs;
    for (const Waiting& w : s.expire(now)) EXPECT_EQ(open.erase(w.id), 1u) << "seed " << seed;
    Waiting w = request(id, 1 + rng.below(3), static_cast<uint64_t>(rng.below(10) == 0));
    w.priority = static_cast<int>(1 + rng.below(p.priority_levels));
    w.timeout_ns = rng.below(3) ? 0 : (1 + rng.below(300)) * kUs;
    if (s.submit(w, now) == Admission::kAccepted) open.insert(id);
    if (rng.below(10) == 0 && !open.empty()) {
      const uint64_t victim = *open.begin();
      EXPECT_TRUE(s.cancel(victim)) << "seed " << seed;
      open.erase(victim);
    }
    while (rng.below(3)) {  // a slot is free
      const auto cut = s.poll(now);
      if (!cut) {
        const auto wake = s.wake_ns(now);
        EXPECT_TRUE(s.waiting() == 0 || (wake && *wake > now && *wake <= now + p.max_delay_ns)) << "seed " << seed;
        break;
      }
      int64_t rows = 0;
      std::map<int, uint64_t> last;
      for (const Waiting& c : cut->requests) {
        EXPECT_EQ(open.erase(c.id), 1u) << "seed " << seed;
        EXPECT_EQ(c.key, cut->requests[0].key) << "seed " << seed;
        if (!p.level.delay_expired) EXPECT_LT(std::exchange(last[c.priority], c.id), c.id) << "seed " << seed;
        rows += c.rows;
        out.hash = out.hash * 31 + c.id;
      }
      if (cut->requests.size() > 1) EXPECT_TRUE(std::count(p.sizes.begin(), p.sizes.end(), rows)) << "seed " << seed;
      out.hash = out.hash * 31 + static_cast<uint64_t>(cut->reason);
    }
    EXPECT_EQ(s.waiting(), static_cast<int64_t>(open.size())) << "seed " << seed;
  }
  return out;
}

TEST(Scheduler, AnyTraffic) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const Trace once = run_seed(seed);
    if (seed % 100 == 0) EXPECT_EQ(once.hash, run_seed(seed).hash) << "seed " << seed;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace peri::serve
