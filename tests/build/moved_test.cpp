// Models whose own answers move by one rounding further than the budget allows: an answer as far off passes where every
// value on the way is right, and no wrong one passes by that.
// label: cpu
#include <gtest/gtest.h>

#include "tests/build/held_subject.hpp"

namespace peri::build {
namespace {

// The engine of one graph, held against another.
judge::Verification verified(const std::string& engine, const std::string& model, judge::Budget budget = {}) {
  const judge::Subject s = subject(engine, model);
  judge::VerifyTerms terms;
  terms.seeds = {1};
  terms.budget = budget;
  auto v = judge::verify(s, terms);
  EXPECT_TRUE(v.ok()) << v.error().text();
  return std::move(*v);
}

// A product, from whose sum with `away` the like is taken away again: what is left moves by thousandths of its range.
std::string cancelling(const std::string& away, const std::string& last, const std::string& weight = "0.5") {
  return "graph { input x: f32[64,16]; input w: f32[16,16]; const c: f32[] = [" + away + "]; const k: f32[] = [" +
         weight + "]; m = matmul(x, w); big = add(m, c); less = sub(big, c); e = " + last +
         "; y = mul(e, k); output y }";
}

TEST(Moved, AnAnswerAsFarOffAsTheModelMovesPasses) {
  const std::string model = cancelling("20000", "softmax(less) {axis=1}");
  const judge::Verification v = verified(model, model);
  ASSERT_EQ(v.outputs.size(), 1u);
  const judge::OutputVerdict& o = v.outputs[0];
  ASSERT_GT(o.difference.relative, v.allowed) << "the answer is within its budget: this test shows nothing";
  EXPECT_TRUE(v.passed) << v.text();
  EXPECT_EQ(v.moved, 1u);
  EXPECT_LE(o.difference.relative, 2 * o.model_moves);
  EXPECT_GT(o.followed, 0);
  EXPECT_NE(v.text().find("the model's own answer moves by"), std::string::npos) << v.text();
}

TEST(Moved, ABudgetThatIsGivenIsKept) {
  const std::string model = cancelling("20000", "softmax(less) {axis=1}");
  judge::Budget given;
  given.given = true;
  EXPECT_FALSE(verified(model, model, given).passed);
}

// A value that is off by more than its own error fails, however little that is beside what the model moves by.
TEST(Moved, AWrongValueOnTheWayFails) {
  const std::string last = "softmax(less) {axis=1}", model = cancelling("20000", last);
  for (const std::string& wrong :
       {cancelling("20001", last), cancelling("20000", last, "0.501"), cancelling("20000", last, "0.50002")}) {
    const judge::Verification v = verified(wrong, model);
    EXPECT_FALSE(v.passed) << wrong << ": " << v.text();
  }
}

TEST(Moved, AModelThatRoundingAloneDecidesPassesNothing) {
  const std::string model = cancelling("200000000", "softmax(less) {axis=1}");
  const judge::Verification v = verified(model, model);
  EXPECT_FALSE(v.passed) << v.text();
  EXPECT_NE(v.text().find("--max-error"), std::string::npos) << v.text();
}

}  // namespace
}  // namespace peri::build
