// Tenants share a queue, and an overload costs those who are refused and nobody else: in simulated time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.hpp"
#include "serve/queue/scheduler.hpp"

namespace peri::serve {
namespace {

Waiting of_tenant(uint64_t id, uint32_t tenant, int64_t rows = 1) {
  Waiting w;
  w.id = id;
  w.rows = rows;
  w.key = 7;
  w.tenant = tenant;
  return w;
}

std::vector<uint32_t> served(Scheduler& s, int count) {
  std::vector<uint32_t> out;
  for (int k = 0; k < count; ++k)
    if (const auto cut = s.poll(0)) out.push_back(cut->requests[0].tenant);
  return out;
}

TEST(Fair, AFloodDoesNotPassALatecomer) {
  Scheduler s(QueuePolicy{});
  uint64_t id = 0;
  for (int k = 0; k < 100; ++k) s.submit(of_tenant(++id, 1), 0);
  EXPECT_EQ(served(s, 2), (std::vector<uint32_t>{1, 1}));
  for (int k = 0; k < 3; ++k) s.submit(of_tenant(++id, 2), 0);
  const std::vector<uint32_t> next = served(s, 6);
  EXPECT_EQ(std::count(next.begin(), next.end(), 2u), 3) << "turn about from when it came";
}

TEST(Fair, RowsCountNotRequests) {
  Scheduler s(QueuePolicy{});
  uint64_t id = 0;
  for (int k = 0; k < 50; ++k) s.submit(of_tenant(++id, 1, 4), 0);
  for (int k = 0; k < 200; ++k) s.submit(of_tenant(++id, 2, 1), 0);
  std::map<uint32_t, int> rows;
  for (const uint32_t tenant : served(s, 100)) rows[tenant] += tenant == 1 ? 4 : 1;
  EXPECT_NEAR(rows[1], rows[2], 5);
}

TEST(Fair, OneTenantKeepsTheOrderOfArrival) {
  Scheduler s(QueuePolicy{});
  Rng rng(3);
  for (uint64_t k = 1; k <= 300; ++k) s.submit(of_tenant(k, 9, 1 + rng.below(5)), 0);
  for (uint64_t k = 1; k <= 300; ++k) {
    const auto cut = s.poll(0);
    ASSERT_TRUE(cut);
    ASSERT_EQ(cut->requests[0].id, k);
  }
}

TEST(Fair, NobodyFillsTheQueueOfOthers) {
  QueuePolicy policy;
  policy.level.max_queue = 100;
  Scheduler s(policy);
  uint64_t id = 0;
  s.submit(of_tenant(++id, 2), 0);
  int taken = 0;
  for (int k = 0; k < 500; ++k) taken += s.submit(of_tenant(++id, 1), 0) == Admission::kAccepted ? 1 : 0;
  EXPECT_EQ(taken, 75);
  for (int k = 0; k < 20; ++k) EXPECT_EQ(s.submit(of_tenant(++id, 2), 0), Admission::kAccepted);
  EXPECT_TRUE(s.cancel(1));
  EXPECT_EQ(s.waiting(), 95);
}

struct Outcome {
  int64_t offered = 0, good = 0, refused = 0, late = 0, most_waiting = 0;
  std::vector<int64_t> times;
};

// One executor whose batch of n rows takes fixed + n * each; Poisson arrivals, in simulated time.
Outcome simulate(double load, uint64_t seed) {
  constexpr int64_t kFixed = 2'000'000, kEach = 1'000'000, kSeconds = 20;
  constexpr int64_t kMax = 8;
  QueuePolicy policy;
  for (int64_t n = 1; n <= kMax; ++n) policy.sizes.push_back(n);
  policy.level.timeout_ns = 40'000'000;
  policy.level.max_queue = 64;
  Scheduler s(policy);
  Rng rng(seed);
  const double rate = load * static_cast<double>(kMax) / static_cast<double>(kFixed + kMax * kEach);  // per ns
  Outcome out;
  int64_t now = 0, free_at = 0;
  double next = 0;
  uint64_t id = 0;
  while (now < kSeconds * 1'000'000'000) {
    next += -std::log(1 - rng.uniform()) / rate;
    const int64_t arrival = static_cast<int64_t>(next);
    while (free_at <= arrival) {  // what the executor does until then
      out.late += static_cast<int64_t>(s.expire(free_at).size());
      const auto cut = s.poll(free_at);
      if (!cut) {
        free_at = arrival;
        break;
      }
      const int64_t end = free_at + kFixed + kEach * static_cast<int64_t>(cut->requests.size());
      for (const Waiting& w : cut->requests) out.times.push_back(end - w.arrival_ns);
      out.good += static_cast<int64_t>(cut->requests.size());
      free_at = end;
    }
    now = arrival;
    ++out.offered;
    out.late += static_cast<int64_t>(s.expire(now).size());
    out.refused += s.submit(of_tenant(++id, 0), now) == Admission::kAccepted ? 0 : 1;
    out.most_waiting = std::max(out.most_waiting, s.waiting());
  }
  std::sort(out.times.begin(), out.times.end());
  return out;
}

TEST(Fair, TenTimesTheCapacityCostsThoseRefusedAlone) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const double capacity = 20.0 * 8 / 0.010;  // rows in that time, in full batches
    for (const double load : {2.0, 5.0, 10.0}) {
      const Outcome o = simulate(load, seed);
      EXPECT_GE(static_cast<double>(o.good), 0.95 * capacity) << load;
      const int64_t p99 = o.times[o.times.size() * 99 / 100];
      EXPECT_LE(p99, 2 * (40'000'000 + 10'000'000)) << "twice a queue's time and a batch";
      EXPECT_LE(o.most_waiting, 64);
      EXPECT_LE(o.offered - o.good - o.refused - o.late, 64) << "what still waits at the end; nothing else is lost";
    }
  }
}

}  // namespace
}  // namespace peri::serve
