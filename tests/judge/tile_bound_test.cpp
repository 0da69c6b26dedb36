// The verdict on a generated model whose convolution has windows of zeros: what Winograd's tiles leave there is right,
// and the same error where no tile has an input, or behind another operator, is wrong.
#include <gtest/gtest.h>

#include "tests/programs/generated_case.hpp"

namespace peri {
namespace {

// Rows 0 to 7 of 16 hold zeros.
generated::Case zero_rows(const std::string& node) {
  generated::Case c;
  auto g = ir::parse_graph("graph { input x: f32[2,16,16,9]; const w: f32[3,16,3,3] = seeded(0.3, 1); y = " + node +
                           "; output y }");
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  c.graph = *std::move(g);
  generated::Size size;
  ops::RefTensor x = ops::make_ref(DType::kF32, {2, 16, 16, 9});
  Rng rng(3);
  for (size_t k = 0; k < x.f.size(); ++k)
    x.f[k] = k % 144 < 72 ? 0 : static_cast<double>(static_cast<float>(rng.normal()));
  size.inputs = {ops::from_ref(x)};
  auto want = ops::run_reference(c.graph, {&x, 1}, {unit_roundoff(DType::kF32), 1, false, {}});
  EXPECT_TRUE(want.ok());
  size.want = *std::move(want);
  c.sizes.push_back(std::move(size));
  return c;
}

// The verdict on an answer that is exact but for one row of the first channel, where it is off by 5e-7.
std::string verdict(const std::string& node, int64_t row) {
  generated::Case c = zero_rows(node);
  Tensor got = ops::from_ref(c.sizes[0].want[0]);
  const int64_t width = got.dims()[3];
  for (int64_t at = row * width; at < (row + 1) * width; ++at) got.set_f64(at, got.f64(at) + 5e-7);
  generated::Finding f;
  generated::judge_output(c, c.sizes[0], 0, got, 1, &f);
  return f.verdict;
}

TEST(TileBound, RoundOffOfATileIsRightAndElsewhereWrong) {
  const std::string conv = "conv(x, w) {pads=[1,1,1,1]}";
  EXPECT_EQ(verdict(conv, 5), "right") << "its tile takes rows 3 to 8, of which the last holds numbers";
  EXPECT_EQ(verdict(conv, 2), "wrong") << "its tile takes rows -1 to 4";
  EXPECT_EQ(verdict("conv(x, w) {pads=[1,1,1,1], strides=[2,1]}", 2), "wrong") << "nobody computes it by tiles";
  EXPECT_EQ(verdict("relu(x)", 5), "wrong");
  EXPECT_EQ(verdict("max_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1]}", 5), "wrong");
}

}  // namespace
}  // namespace peri
