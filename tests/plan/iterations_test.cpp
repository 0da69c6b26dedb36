// A program keeps the limit of its loops; a section that is no number is refused.
#include "plan/iterations.hpp"

#include <gtest/gtest.h>

namespace peri::plan {
namespace {

TEST(Iterations, AreKept) {
  Program p;
  EXPECT_EQ(iterations_of(p).value(), 0);
  set_iterations(&p, 0);
  EXPECT_TRUE(p.sections.empty()) << "none was given";
  set_iterations(&p, 77);
  EXPECT_EQ(iterations_of(p).value(), 77);
  for (const char* none : {"", "0", "-1", "7x", "99999999999999999999"}) {
    p.sections[0].bytes = none;
    ASSERT_FALSE(iterations_of(p).ok()) << none;
    EXPECT_EQ(iterations_of(p).error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace peri::plan
