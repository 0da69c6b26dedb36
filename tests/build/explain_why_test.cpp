// What a step's proof says of why it has its kernel.
// label: cpu
#include "build/explain_why.hpp"

#include <gtest/gtest.h>

namespace peri::build {
namespace {

std::string evidence(double ms, double error, double spread = 0) {
  return format(R"("evidence": {"time_ms": %g, "statistic": "p20", "visits": 2, "spread": %g, "max_error": %g})", ms,
                spread, error);
}

std::string chosen(const std::string& own, const std::string& other) {
  const std::string text =
      R"({"chosen": "mine@1 {}", "key": "k", )" + own + R"(, "others": [{"id": "theirs@1 {}", )" + other + "}]}";
  const auto step = parse_json(text);
  EXPECT_TRUE(step.ok()) << step.error().text();
  return why_of(*step).chosen;
}

TEST(ExplainWhy, WhatDecidedIsTold) {
  EXPECT_EQ(chosen(evidence(1, 0.4), evidence(1.2, 0.1)), "fastest of 2: 20 % ahead of theirs@1 {}");
  const std::string accurate =
      "most accurate of 2 in the same time: its error is 0.1 of its bound, that of theirs@1 {} 0.4";
  EXPECT_EQ(chosen(evidence(1.02, 0.1), evidence(1, 0.4)), accurate);
  EXPECT_EQ(chosen(evidence(1.05, 0.1), evidence(1, 0.4, 0.05)), accurate);
  const std::string whole = "of 2 candidates, with the whole engine around it: alone theirs@1 {} is faster";
  EXPECT_EQ(chosen(evidence(1.05, 0.1), evidence(1, 0.4)), whole);
  EXPECT_EQ(chosen(evidence(1.02, 0.1), evidence(1, 0.14)), whole);
}

}  // namespace
}  // namespace peri::build
