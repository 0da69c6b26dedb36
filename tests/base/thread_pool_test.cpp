// Every task runs once, for any number of threads, in many short runs, and from inside a task; what a task throws
// reaches the caller, and the pool goes on.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/fault.hpp"
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

TEST(ThreadPool, WhatATaskThrowsReachesTheCallerAndThePoolGoesOn) {
  for (const int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 300; ++round) {
      std::atomic<int> inside{0}, most{0};
      const int64_t bad = round % 20;
      EXPECT_THROW(pool.run(20,
                            [&](int64_t task, int) {
                              ++inside;
                              ++most;
                              const bool fails = task == bad;
                              --inside;
                              PERI_CHECK(!fails, "planted");
                            }),
                   InternalFault)
          << threads << " threads, round " << round;
      EXPECT_EQ(inside.load(), 0) << "a task still runs";
      EXPECT_LE(most.load(), 20);
      std::atomic<int> sum{0};
      pool.run(20, [&](int64_t, int) { ++sum; });
      EXPECT_EQ(sum.load(), 20);
    }
  }
}

// Each of as many tasks as threads waits until all have begun, so that no thread can have two.
TEST(ThreadPool, AWorkerHasTheSamePartOfTheListInEveryRun) {
  constexpr int kThreads = 5;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> begun{0}, elsewhere{0};
    pool.run(kThreads, [&](int64_t task, int worker) {
      ++begun;
      while (begun != kThreads) std::this_thread::yield();
      if (task != worker) ++elsewhere;
    });
    ASSERT_EQ(elsewhere, 0) << "round " << round;
  }
}

// The first task of the caller's part ends after all others: somebody must have taken the rest of that part.
TEST(ThreadPool, OthersTakeTheTasksOfAWorkerThatIsLate) {
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> done{0};
      bool waited = false;
      pool.run(64, [&](int64_t task, int) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (task == 0 && done != 63 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        if (task == 0) waited = done == 63;
        ++done;
      });
      ASSERT_TRUE(waited) << threads << " threads, round " << round;
    }
  }
}

// Longer than workers and the caller spin: they sleep, and must be woken.
TEST(ThreadPool, RunsAfterAPauseAndLongTasks) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> sum{0};
    pool.run(4, [&](int64_t task, int) {
      if (task != 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      ++sum;
    });
    ASSERT_EQ(sum, 4);
  }
}

TEST(ThreadPool, ManyTasksThatThrowAreOneException) {
  ThreadPool pool(4);
  for (int round = 0; round < 300; ++round)
    EXPECT_THROW(pool.run(64, [&](int64_t, int) { PERI_CHECK(false, "planted"); }), InternalFault);
}

TEST(ThreadPool, WhatAnInnerRunThrowsReachesTheOuterCaller) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const auto nested = [&](int64_t outer, int) {
      pool.run(5, [&](int64_t inner, int) { PERI_CHECK(outer != 6 || inner != 3, "planted"); });
    };
    EXPECT_THROW(pool.run(8, nested), InternalFault);
    // The caller is outside again: a run uses all workers, one at a time.
    std::atomic<int> sum{0};
    pool.run(8, [&](int64_t, int) { pool.run(5, [&](int64_t, int) { ++sum; }); });
    EXPECT_EQ(sum.load(), 40);
  }
}

TEST(ThreadPoolDeathTest, WithoutMoreThreadsItRunsOnThoseItHas) {
  const auto run_with_little_memory = [] {
    const rlimit little = {256 << 20, 256 << 20};  // stacks take 8 MiB each
    setrlimit(RLIMIT_AS, &little);
    ThreadPool pool(1000);
    std::atomic<int> sum{0};
    pool.run(100, [&](int64_t, int) { ++sum; });
    std::exit(pool.threads() < 1000 && sum == 100 ? 0 : 1);
  };
  EXPECT_EXIT(run_with_little_memory(), testing::ExitedWithCode(0), "");
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
