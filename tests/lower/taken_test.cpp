// Which of the candidates with the same places is taken: the fastest, but for workspace and accuracy at equal times.
// label: cpu
#include <gtest/gtest.h>

#include <algorithm>

#include "lower/cover.hpp"

namespace peri::lower {
namespace {

// The place of the one that is taken of these, in any order.
size_t taken(std::vector<Counted> list) {
  std::vector<size_t> found;
  for (size_t k = 0; k < list.size(); ++k) list[k].candidate = k;
  const auto earlier = [](const Counted& a, const Counted& b) { return a.candidate < b.candidate; };
  do found.push_back(taken_of(list).candidate);
  while (std::next_permutation(list.begin(), list.end(), earlier));
  for (const size_t f : found) EXPECT_EQ(f, found[0]) << "it hangs on the order";
  return found[0];
}

TEST(Cover, OfNearTiesTheOneWithMuchLessWorkspaceIsTaken) {
  const auto of = [](double ms, int64_t mib, bool timed = true) {
    return Counted{0, ms, mib < 0 ? -1 : mib << 20, timed};
  };
  EXPECT_EQ(taken({of(1.0, 48), of(1.01, 0)}), 1u);
  EXPECT_EQ(taken({of(1.0, 48), of(1.01, 47)}), 0u) << "what it saves is little";
  EXPECT_EQ(taken({of(1.0, 48), of(1.03, 0)}), 0u) << "no tie";
  EXPECT_EQ(taken({of(1.0, 64), of(1.015, 32), of(1.03, 0)}), 1u) << "ties are with the fastest";
  EXPECT_EQ(taken({of(1.0, 64), of(1.01, 32), of(1.015, 0)}), 2u);
  EXPECT_EQ(taken({of(1.0, 64), of(1.005, 31), of(1.01, 30)}), 1u) << "of those with little the fastest";
  EXPECT_EQ(taken({of(1.0, 48), of(1.01, 0, false)}), 0u) << "nobody timed it";
  EXPECT_EQ(taken({of(1.0, 48), of(1.01, -1)}), 0u) << "nobody knows that it takes less";
  EXPECT_EQ(taken({of(1.0, -1), of(1.01, 0)}), 0u) << "nobody knows that this one takes more";
  EXPECT_EQ(taken({of(1.0, 48), of(1.005, -1), of(1.01, 0)}), 2u);
}

TEST(Cover, OfCandidatesOfTheSameTimeTheMostAccurateIsTaken) {
  const auto of = [](double ms, double max_error, double spread = 0, int64_t mib = 0) {
    return Counted{0, ms, mib << 20, true, spread, max_error};
  };
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.02, 0.1)}), 1u);
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.0, 0.1)}), 1u);
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.02, 0)}), 1u);
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.04, 0.1)}), 0u) << "slower";
  EXPECT_EQ(taken({of(1.0, 0.14), of(1.02, 0.1)}), 0u) << "hardly less accurate";
  EXPECT_EQ(taken({of(1.0, 0.1), of(1.02, 0.1)}), 0u);
  EXPECT_EQ(taken({of(1.0, 0.4, 0.05), of(1.04, 0.1)}), 1u) << "as the visits of the fastest differ";
  EXPECT_EQ(taken({of(1.0, 0.4, 0.5), of(1.1, 0.1)}), 0u) << "so much is no tie";
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.02, 0.1, 0.5)}), 1u);
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.01, 0.12), of(1.02, 0.1)}), 1u) << "of the accurate ones the fastest";
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.01, 0.2), of(1.02, 0.1)}), 2u);
  EXPECT_EQ(taken({of(1.0, -1), of(1.02, 0.1)}), 0u) << "nobody verified it";
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.02, -1)}), 0u);
  EXPECT_EQ(taken({of(1.0, 0.4), of(1.02, 0.1, 0, 32)}), 0u) << "for much more workspace";
  EXPECT_EQ(taken({of(1.0, 0.1, 0, 32), of(1.01, 0.4), of(1.015, 0.2)}), 2u) << "of those with little";
}

}  // namespace
}  // namespace peri::lower
