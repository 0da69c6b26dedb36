// How many of a kernel's offers a measuring build tries on a device.
// label: cpu
#include <gtest/gtest.h>

#include "tune/candidates.hpp"

namespace peri::tune {
namespace {

std::vector<kernels::Offer> guessed(std::initializer_list<double> list) {
  std::vector<kernels::Offer> out;
  for (const double ms : list) out.emplace_back().guess_ms = ms;
  return out;
}

TEST(Guesses, TheFirstOfManyAreTried) {
  EXPECT_EQ(guesses_tried(guessed({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})), 8u);
  EXPECT_EQ(guesses_tried(guessed({1, 1.1, 1.2, 1.3, 1.9, 2.1, 5})), 5u) << "those far from the best are no rivals";
  EXPECT_EQ(guesses_tried(guessed({1, 3, 4, 5, 6})), 4u) << "beyond a few";
  EXPECT_EQ(guesses_tried({}), 0u);
}

TEST(Guesses, AKernelThatAnotherLeavesBehindWaitsForIt) {
  EXPECT_EQ(turn_of(0, 3.1, 1), Turn::kLastResort);
  EXPECT_EQ(turn_of(0, 2.9, 1), Turn::kFirst) << "to see whether its others are worth a trial";
  EXPECT_EQ(turn_of(1, 2.9, 1), Turn::kIfClose);
  EXPECT_EQ(turn_of(1, 1.05, 1), Turn::kFirst);
  EXPECT_EQ(turn_of(1, 3.1, 0), Turn::kFirst) << "no other says anything";
  EXPECT_EQ(turn_of(1, 0, 1), Turn::kFirst) << "it says nothing itself";
}

}  // namespace
}  // namespace peri::tune
