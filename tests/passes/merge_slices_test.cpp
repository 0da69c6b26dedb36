// Windows that exporters cut axis by axis leave the pipeline as one slice with the same meaning, and stay apart where
// the pass is disabled.
#include <algorithm>

#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

constexpr const char* kWindow =
    "graph { input x: f32[batch,8,9]; const s: i64[1] = [1]; const e: i64[1] = [9223372036854775807]; const m: i64[1] "
    "= [-2]; const n: i64[1] = [-20]; const d: i64[1] = [-2]; const a: i64[1] = [1]; const b: i64[1] = [-1]; const z: "
    "i64[1] = [0]; t = slice(x, s, e, z); u = slice(t, s, m, a); y = slice(u, m, n, b, d); output y }";

int64_t slices(const ir::Graph& g) {
  return std::count_if(g.nodes.begin(), g.nodes.end(), [](const ir::Node* n) { return n->op == "slice"; });
}

TEST(MergeSlices, LeavesOneSliceOfAWindow) {
  const ir::Graph before = parse(kWindow);
  ir::Graph after = before.clone(), apart = before.clone();
  ASSERT_TRUE(run_pipeline(after, {}).ok());
  ASSERT_TRUE(run_pipeline(apart, {{"merge_slices"}, ""}).ok());
  EXPECT_EQ(slices(after), 1);
  EXPECT_EQ(slices(apart), 3);
  expect_same_meaning(before, after, 3);
  expect_parses_back(after);
}

}  // namespace
}  // namespace peri::passes
