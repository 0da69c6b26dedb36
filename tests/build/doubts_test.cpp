// Which choices the whole graph is asked about, and in which order.
#include "build/doubts.hpp"

#include <gtest/gtest.h>

namespace peri::build {
namespace {

tune::Evidence taking(double ms) {
  tune::Evidence e;
  e.time_ms = ms;
  return e;
}
lower::StepReport step(const std::string& key, double ms, double next_ms) {
  lower::StepReport s;
  s.name = s.key = key;
  s.chosen = key + " chosen";
  s.evidence = taking(ms);
  s.others = {{key + " far", taking(ms * 2)}, {key + " next", taking(next_ms)}};
  return s;
}
std::string order(const std::vector<Doubt>& list) {
  std::string out;
  for (const Doubt& d : list) out += d.name;
  return out;
}

TEST(Doubts, TheMostDoubtfulIsFirstNotTheLongest) {
  // a takes longest, but the next candidate is 14 % behind; b's is 1 % behind, c's is as fast, of little time.
  const auto list = doubts({step("a", 1.0, 1.14), step("b", 0.5, 0.505), step("c", 0.1, 0.1)}, 6);
  EXPECT_EQ(order(list), "bca");
  EXPECT_EQ(list[0].next, "b next");
  EXPECT_NEAR(list[0].gap, 0.01, 1e-9);
  EXPECT_NEAR(list[0].weight(), 0.5 * (1 - 0.01 / kClose), 1e-9);
  EXPECT_EQ(order(doubts({step("a", 1.0, 1.14), step("b", 0.5, 0.505), step("c", 0.1, 0.1)}, 1)), "b");
}

TEST(Doubts, AllStepsOfARegionCountTogether) {
  EXPECT_EQ(order(doubts({step("a", 0.3, 0.31), step("b", 0.2, 0.205), step("b", 0.2, 0.205)}, 6)), "ba");
}

TEST(Doubts, WhatIsFarOrWrongOrUntimedIsNone) {
  lower::StepReport wrong = step("w", 1, 1.01), untimed = step("u", 1, 1.01), relayout = step("r", 1, 1.01);
  wrong.others[1].second.rejected = "a wrong result";
  untimed.evidence.time_ms = -1;
  relayout.conversion = true;
  EXPECT_EQ(order(doubts({step("a", 1, 1.16), wrong, untimed, relayout}, 6)), "");
  EXPECT_EQ(order(doubts({step("a", 1, 0.9)}, 6)), "a") << "a beginning that lost for another reason";
}

}  // namespace
}  // namespace peri::build
