// Every task runs once, for any number of threads, in many short runs, and from inside a task.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/thread_pool.hpp"

namespace peri {
namespace {

TEST(ThreadPool, EveryTaskOnceInManyShortRuns) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 2000; ++round) {
      const int64_t tasks = round % 7;
      std::vector<std::atomic<int>> done(static_cast<size_t>(tasks));
      std::atomic<bool> bad_worker{false};
      pool.run(tasks, [&](int64_t task, int worker) {
        if (worker < 0 || worker >= threads) bad_worker = true;
        done[static_cast<size_t>(task)].fetch_add(1);
      });
      EXPECT_FALSE(bad_worker);
      for (const auto& d : done) ASSERT_EQ(d.load(), 1) << threads << " threads, round " << round;
    }
  }
}

TEST(ThreadPool, ARunInsideATaskStaysOnItsWorker) {
  ThreadPool pool(3);
  std::atomic<int> sum{0}, moved{0};
  pool.run(8, [&](int64_t, int outer) {
    pool.run(5, [&](int64_t, int inner) {
      sum.fetch_add(1);
      if (inner != outer) moved.fetch_add(1);
    });
  });
  EXPECT_EQ(sum.load(), 40);
  EXPECT_EQ(moved.load(), 0);
}

TEST(ThreadPool, TwoCallersTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  ThreadPool callers(2);
  callers.run(2, [&](int64_t, int) {
    for (int k = 0; k < 500; ++k) pool.run(3, [&](int64_t, int) { sum.fetch_add(1); });
  });
  EXPECT_EQ(sum.load(), 2 * 500 * 3);
}

}  // namespace
}  // namespace peri
