// Slower, faster and equal are told apart where there are processes enough, and never from single ones; different work
// is not compared.
#include "bench/compare.hpp"

#include <gtest/gtest.h>

#include "tests/bench/records.hpp"

namespace peri::bench {
namespace {

std::string told(const Record& before, const Record& after, double limit = 1.03) {
  const auto c = compare(before, after, limit);
  if (!c.ok()) return c.error().text();
  return c->verdict() + (c->regression ? ", regression" : "");
}

TEST(Compare, TellsSlowerFasterAndEqualApart) {
  const Record one = made_up(1, 6, 1), ten = made_up(1.1, 6, 2), two = made_up(1.02, 6, 3), same = made_up(1, 6, 4);
  EXPECT_EQ(told(one, ten), "slower, regression");
  EXPECT_EQ(told(one, ten, 1.2), "slower");
  EXPECT_EQ(told(one, two), "slower") << "within the limit";
  EXPECT_EQ(told(one, two, 1), "slower, regression");
  EXPECT_EQ(told(ten, one), "faster");
  EXPECT_EQ(told(one, same), "no difference told");
}

TEST(Compare, SingleProcessesGiveNoVerdict) {
  EXPECT_EQ(told(made_up(1, 1, 1), made_up(2, 1, 2)), "no verdict");
  EXPECT_EQ(told(made_up(1, 5, 1), made_up(2, 4, 2)), "no verdict");
  EXPECT_EQ(told(made_up(1, 5, 1), made_up(2, 5, 2)), "slower, regression") << "as few as kMinProcesses can tell";
  EXPECT_NE(advice_for_verdict().find("--repeat 5"), std::string::npos);
}

// Processes 10 % apart, and samples within 1 %: the second set is a little slower by chance.
TEST(Compare, ProcessesThatDifferAreNotCalledSlower) {
  int slower = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string verdict = told(made_up(1, 5, seed, 0.1), made_up(1, 5, seed + 100, 0.1));
    slower += verdict != "no difference told" ? 1 : 0;
  }
  EXPECT_LE(slower, 1);
}

TEST(Compare, DifferentWorkIsRefused) {
  const Record one = made_up(1, 5, 1);
  Record other = one;
  other.identity = "fedcba9876543210";
  EXPECT_NE(told(one, other).find("another model"), std::string::npos) << told(one, other);
  other = one;
  other.model = "renamed";
  EXPECT_EQ(told(one, other), "no difference told") << "a name is not an identity";
  other.identity = "";
  EXPECT_NE(told(one, other).find("does not say which model"), std::string::npos);
  other = one;
  other.dims["batch"] = 8;
  EXPECT_NE(told(one, other).find("another size: expected batch=1, found batch=8"), std::string::npos);
  other = one;
  other.threads = 1;
  EXPECT_NE(told(one, other).find("another number of threads"), std::string::npos);
  other = one;
  other.interrupted = true;
  EXPECT_NE(told(one, other).find("was interrupted"), std::string::npos);
  EXPECT_NE(told(one, made_up(1, 5, 2, 0.001, 3)).find("too few samples"), std::string::npos);
}

}  // namespace
}  // namespace peri::bench
