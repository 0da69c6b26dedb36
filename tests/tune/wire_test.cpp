// What crosses the socket comes back: sharing of memory, terms, and the numbers of a verdict.
#include "tune/wire.hpp"

#include <gtest/gtest.h>

#include "ops/entry.hpp"

namespace peri::tune {
namespace {

TEST(Wire, AQuestionKeepsSharingAndTerms) {
  auto g = ir::parse_graph("graph { input x: f32[7,24]; input r: f32[7,24]; y = add(x, r); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  Candidate c{kernels::find("elementwise"), {}};
  c.offer.inputs.resize(2);
  c.offer.outputs.resize(1);
  c.offer.in_place = {1};
  const Candidate* list[] = {&c};
  auto json =
      parse_json(question_text(*g, {false, false}, list, {.measure = false, .other_dims = true}), {64, 1 << 20, 0});
  ASSERT_TRUE(json.ok());
  const auto q = read_question(*json);
  ASSERT_TRUE(q.ok()) << q.error().text();
  EXPECT_EQ(q->candidates[0].offer.in_place, std::vector<int>{1});
  EXPECT_TRUE(q->terms.other_dims);
  EXPECT_FALSE(q->terms.measure);
}

TEST(Wire, AVerdictKeepsItsNumbers) {
  Verdict v;
  v.tried = false;
  v.evidence.time_ms = 0.1;
  v.evidence.statistic = kTimeStatistic;
  v.evidence.runs = 4;
  v.evidence.positions = 4096;
  v.evidence.rejected = "a \"quoted\" reason";
  auto json = parse_json(verdict_text(3, v), {64, 1 << 20, 0});
  ASSERT_TRUE(json.ok());
  const auto read = read_verdict(*json);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_FALSE(read->tried);
  EXPECT_TRUE(read->evidence == v.evidence);
  EXPECT_FALSE(read_verdict(*parse_json("{\"lasting\":true,\"tried\":true,\"evidence\":{\"time_ms\":1}}")).ok())
      << "a time without its statistic";
}

}  // namespace
}  // namespace peri::tune
