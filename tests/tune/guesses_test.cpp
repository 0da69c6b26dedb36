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
  EXPECT_EQ(guesses_tried(guessed({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), 1), 8u);
  EXPECT_EQ(guesses_tried(guessed({1, 1.1, 1.2, 1.3, 1.9, 2.1, 5}), 1), 5u) << "those far from the best are no rivals";
  EXPECT_EQ(guesses_tried(guessed({1, 3, 4, 5, 6}), 1), 4u) << "beyond a few";
}

TEST(Guesses, AKernelThatAnotherLeavesFarBehindIsTriedOnce) {
  EXPECT_EQ(guesses_tried(guessed({3.1, 3.2, 3.3}), 1), 1u);
  EXPECT_EQ(guesses_tried(guessed({2.9, 3.2, 3.3}), 1), 3u);
  EXPECT_EQ(guesses_tried(guessed({3.1, 3.2}), 0), 2u) << "no other says anything";
  EXPECT_EQ(guesses_tried(guessed({0, 0}), 1), 2u) << "it says nothing itself";
  EXPECT_EQ(guesses_tried({}, 1), 0u);
}

}  // namespace
}  // namespace peri::tune
