// The time of a step is the median of its times in each run: a stall in one of them moves nothing.
#include "bench/steps.hpp"

#include <gtest/gtest.h>

namespace peri::bench {
namespace {

TEST(StepSamples, AStalledRunMovesNoStep) {
  StepSamples s(2);
  for (const double stall : {0.0, 50.0, 0.0, 0.0, 4.0}) {
    s.add(0, 1 + stall);
    s.add(1, 0.25);
    s.add(1, 0.25);
    s.end_run();
  }
  EXPECT_EQ(s.runs(), 5u);
  EXPECT_EQ(s.median_ms(0), 1);
  EXPECT_EQ(s.median_ms(1), 0.5) << "a step that ran twice took both times";
}

TEST(StepSamples, WhatIsClearedCountsForNothing) {
  StepSamples s(1);
  EXPECT_EQ(s.median_ms(0), 0);
  s.add(0, 100);
  s.end_run();
  s.add(0, 100);
  s.clear();
  s.add(0, 2);
  s.end_run();
  EXPECT_EQ(s.runs(), 1u);
  EXPECT_EQ(s.median_ms(0), 2);
}

}  // namespace
}  // namespace peri::bench
