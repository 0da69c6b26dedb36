// Slices cover everything once, and what one of them throws reaches the caller when all have ended.
#include "ops/reference/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "base/fault.hpp"
#include "base/stop.hpp"

namespace peri::ops {
namespace {

TEST(ParallelFor, EveryIndexOnce) {
  for (const int threads : {1, 3, 16}) {
    std::vector<std::atomic<int>> seen(10);
    parallel_for(threads, 10, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) ++seen[static_cast<size_t>(k)];
    });
    for (const auto& s : seen) EXPECT_EQ(s.load(), 1) << threads;
  }
}

TEST(ParallelFor, ASliceHasAtLeastAsManyAsIsAsked) {
  const struct {
    int64_t n, least;
    int slices;
  } cases[] = {{8, 4096, 1},      {4096, 4096, 1}, {8191, 4096, 1}, {8192, 4096, 2},
               {100000, 4096, 4}, {3, 1, 3},       {9, 1, 4}};
  for (const auto& c : cases) {
    std::atomic<int> slices{0};
    std::atomic<int64_t> done{0};
    parallel_for(
        4, c.n,
        [&](int64_t begin, int64_t end) {
          ++slices;
          done += end - begin;
        },
        c.least);
    EXPECT_EQ(slices.load(), c.slices) << c.n;
    EXPECT_EQ(done.load(), c.n);
  }
}

TEST(ParallelFor, OfNothingNothingIsDone) {
  const std::function<bool()> never = [] { return false; };
  const StopScope scope(never);  // as a command has one
  for (const int threads : {1, 3})
    parallel_for(threads, 0, [&](int64_t, int64_t) { ADD_FAILURE() << "of " << threads; });
}

TEST(ParallelFor, WhatASliceThrowsReachesTheCaller) {
  for (const int threads : {1, 4}) {
    for (const int64_t bad : {0, 9}) {
      std::atomic<int64_t> done{0};
      EXPECT_THROW(parallel_for(threads, 10,
                                [&](int64_t begin, int64_t end) {
                                  PERI_CHECK(bad < begin || bad >= end, "planted");
                                  done += end - begin;
                                }),
                   InternalFault);
      if (threads == 4) EXPECT_GE(done.load(), 7) << "the other slices are whole";
    }
  }
}

}  // namespace
}  // namespace peri::ops
