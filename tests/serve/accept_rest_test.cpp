// What a drain accepts is bounded, however many go on to connect.
#include "serve/http/accept_rest.hpp"

#include <gtest/gtest.h>

namespace peri::serve {
namespace {

TEST(AcceptRest, TakesWhatIsThere) {
  int there = 5, asked = 0;
  accept_rest(100, [&] {
    ++asked;
    return there-- > 0;
  });
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(there, -1);
}

TEST(AcceptRest, ClientsThatGoOnToConnectDoNotHoldItUp) {
  int taken = 0;
  accept_rest(100, [&] { return ++taken < 1000000; });
  EXPECT_EQ(taken, 101) << "a queue that was full, and its one more";
}

}  // namespace
}  // namespace peri::serve
