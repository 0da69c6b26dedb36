// Transposes of constants, byte by byte, agree with the reference for every permutation, rank and width.
#include "passes/rewrite/move_constant.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/entry.hpp"

namespace peri::passes {
namespace {

void check(const std::vector<int64_t>& dims, DType dtype) {
  auto t = Tensor::zeros(dtype, dims);
  ASSERT_TRUE(t.ok());
  for (int64_t k = 0; k < t->numel(); ++k) t->set_i64(k, k % 120);
  std::vector<int64_t> perm(dims.size());
  for (size_t k = 0; k < perm.size(); ++k) perm[k] = static_cast<int64_t>(k);
  do {
    ir::Graph g;
    g.mark_output(g.add("transpose", {g.add_constant("t", *t)}, {{"perm", perm}})->out(), "y");
    ASSERT_TRUE(ops::infer_graph(g).ok());
    auto want = ops::run_reference(g, {});
    ASSERT_TRUE(want.ok());
    const auto got = transposed(*t, perm);
    ASSERT_TRUE(got.has_value());
    EXPECT_TRUE(got->same_content(ops::from_ref((*want)[0]))) << testing::PrintToString(perm);
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(Transposed, EveryPermutation) {
  for (DType t : {DType::kF32, DType::kF16, DType::kI8, DType::kI64}) {
    check({19, 35}, t);
    check({3, 18, 5}, t);
    check({2, 3, 17, 4}, t);
    check({2, 1, 3, 1, 5}, t);
    check({1, 1}, t);
    check({4, 0, 2}, t);
    check({}, t);
  }
}

}  // namespace
}  // namespace peri::passes
