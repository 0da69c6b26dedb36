// Results whose lines are computed each as a whole, the sequences of a recurrent cell: they are judged at some of the
// sequences, however many there are, in every output.
#include <gtest/gtest.h>

#include <set>

#include "ops/entry.hpp"
#include "tune/arguments.hpp"
#include "tune/expected.hpp"

namespace peri::tune {
namespace {

ir::Graph parsed(const std::string& text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}

// Of 800 sequences, both ways, from given states: 13 Gflop.
constexpr const char* kLarge =
    "graph { input x: f32[10,400,224]; const w: f32[2,896,224] = seeded(0.05, 1); const r: f32[2,896,224] = "
    "seeded(0.05, 2); const b: f32[2,1792] = seeded(0.2, 3); input s: f32[2,400,224]; input m: f32[2,400,224]; "
    "y, h, c = lstm(x, w, r, b, _, s, m) {direction=\"bidirectional\"}; output y; output h; output c }";

TEST(Lines, ManySequencesAreJudgedAtSome) {
  const ir::Graph g = parsed(kLarge);
  auto arguments = make_arguments(g, 7);
  ASSERT_TRUE(arguments.ok());
  const auto expected = make_expected(g, *arguments, 2, 5);
  ASSERT_TRUE(expected.ok()) << expected.error().text();
  ASSERT_EQ(expected->each.size(), 3u);
  std::vector<Tensor> right, wrong;
  for (size_t k = 0; k < 3; ++k) {
    const Expected& one = expected->each[k];
    ASSERT_GT(one.positions.size(), 1000u) << k;
    std::set<int64_t> sequences, directions;
    for (const int64_t p : one.positions) {
      const int64_t row = p / 224 % 800;
      sequences.insert(row);
      directions.insert(row / 400);
    }
    EXPECT_TRUE(sequences.contains(0) && sequences.contains(799)) << k;
    EXPECT_GE(sequences.size(), 4u);
    EXPECT_LE(sequences.size(), 40u);
    EXPECT_EQ(directions.size(), 2u);
    right.push_back(ops::from_ref(one.out[0]));
  }
  EXPECT_TRUE(compare(*expected, right).ok());
  for (size_t k = 0; k < 3; ++k) {
    wrong = right;
    wrong[k] = ops::from_ref(expected->each[k].out[0]);
    const int64_t at = expected->each[k].positions[expected->each[k].positions.size() / 2];
    wrong[k].set_f64(at, wrong[k].f64(at) + 0.01);
    EXPECT_FALSE(compare(*expected, wrong).ok()) << k;
  }
}

// A few sequences beside all of them, of each output, in both layouts, with lengths; lines chosen say nothing of
// others.
TEST(Lines, SomeSequencesAreThoseOfAll) {
  for (const char* op : {"rnn", "gru", "lstm"})
    for (const bool batch_first : {false, true})
      for (const char* direction : {"forward", "reverse", "bidirectional"}) {
        const int d = direction[0] == 'b' ? 2 : 1, gates = op[0] == 'r' ? 1 : op[0] == 'g' ? 3 : 4;
        const std::string states = batch_first ? format("[6,%d,9]", d) : format("[%d,6,9]", d);
        const std::string more = gates == 4 ? ", m" : "", third = gates == 4 ? ", c" : "";
        const std::string names[] = {"y", "h", "c"};
        for (int k = 0; k < (gates == 4 ? 3 : 2); ++k) {
          const ir::Graph g = parsed(format(
              "graph { input x: f32[%s,5]; const w: f32[%d,%d,5] = seeded(0.5, 1); const r: f32[%d,%d,9] = "
              "seeded(0.4, 2); const b: f32[%d,%d] = seeded(0.3, 3); const n: i32[6] = [4, 0, 3, 1, 4, 2]; "
              "input s: f32%s; input m: f32%s; y, h%s = %s(x, w, r, b, n, s%s) {direction=\"%s\", layout=%d}; "
              "output %s }",
              batch_first ? "6,4" : "4,6", d, gates * 9, d, gates * 9, d, 2 * gates * 9, states.c_str(), states.c_str(),
              third.c_str(), op, more.c_str(), direction, batch_first ? 1 : 0, names[k].c_str()));
          SCOPED_TRACE(std::string(op) + " " + direction + " " + names[k]);
          auto arguments = make_arguments(g, 3);
          ASSERT_TRUE(arguments.ok());
          const auto whole = expected_at(g, *arguments, 1, {});
          ASSERT_TRUE(whole.ok()) << whole.error().text();
          const int64_t count = whole->out[0].numel();
          for (const int64_t at : {int64_t{0}, count / 3, count / 2, count - 1}) {
            const auto some = expected_at(g, *arguments, 1, {at});
            ASSERT_TRUE(some.ok());
            EXPECT_NEAR(some->out[0].f[static_cast<size_t>(at)], whole->out[0].f[static_cast<size_t>(at)], 1e-13) << at;
            EXPECT_NEAR(some->out[0].r(at), whole->out[0].r(at), 1e-3 * whole->out[0].r(at)) << at;
          }
          if (k > 0) continue;
          // The sequences that nobody asked for were not walked.
          const auto one = expected_at(g, *arguments, 1, {0});
          int64_t zeros = 0;
          for (const double v : one->out[0].f) zeros += v == 0;
          EXPECT_GE(zeros, count / 2);
        }
      }
}

}  // namespace
}  // namespace peri::tune
