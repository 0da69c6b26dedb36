// A problem whose tensors take more than a gigabyte is judged like any other where the memory is there.
#include <gtest/gtest.h>

#include "device/memory_info.hpp"
#include "problem/problem.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

TEST(Large, AProblemOfMoreThanAGigabyteIsJudged) {
  constexpr int64_t kBytes = int64_t{10} << 30;  // that judging it takes
  const auto p = problem::parse("relu x=f32[36000,4000]");
  ASSERT_TRUE(p.ok());
  Tuner tuner({.measure = false, .threads = 2});
  const Candidates& all = tuner.candidates(p->graph, p->weights);
  ASSERT_FALSE(all.list.empty());
  const bool room = device::host_memory().available_bytes > kBytes * 5 / 4;
  for (const Candidate& c : all.list) {
    if (room) {
      EXPECT_EQ(c.evidence.rejected, "");
      EXPECT_GT(c.evidence.max_error, -1);
      EXPECT_GE(c.evidence.runs, 2);
    } else {
      EXPECT_NE(c.evidence.rejected.find("of memory"), std::string::npos) << c.evidence.rejected;
    }
  }
}

}  // namespace
}  // namespace peri::tune
