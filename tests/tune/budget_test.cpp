// A tuner whose time is over tries nothing more, and takes what it knows.
#include <gtest/gtest.h>

#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

TEST(Budget, WhenItIsSpentNothingIsTried) {
  auto g = ir::parse_graph("graph { input x: f32[7,24]; y = relu(x); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  for (const bool spent : {true, false}) {
    Options o;
    o.budget_ms = 1;
    o.budget_seconds = spent ? 1e-9 : 1e6;
    Tuner tuner(o);
    const Candidates& all = tuner.candidates(*g, {false});
    ASSERT_FALSE(all.list.empty());
    EXPECT_EQ(all.list[0].evidence.tried(), !spent);
    EXPECT_TRUE(all.list[0].evidence.right()) << "it may be chosen all the same";
    EXPECT_EQ(tuner.stats().untried, spent ? 1 : 0);
  }
}

}  // namespace
}  // namespace peri::tune
