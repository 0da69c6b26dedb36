// Floats that a model computes sizes with are rounded in an exact run; others are not.
// label: null
#include "ops/reference/size_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/entry.hpp"

namespace peri::ops {
namespace {

TEST(SizeChain, SizesAreComputedInFloat32) {
  auto g = ir::parse_graph(
      "graph { input x: f32[b,10]; input k: f32[]; const s: f32[] = [0.7]; h = shape(x) {start=1}; f = cast(h) {to=1}; "
      "m = mul(f, s); l = floor(m); n = cast(l) {to=14}; y = mul(x, s); z = mul(k, s); output n; output y; output z }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(infer_graph(*g).ok());
  RefTensor x = make_ref(DType::kF32, {1, 10}), k = make_ref(DType::kF32, {});
  std::fill(x.f.begin(), x.f.end(), 10.0);
  k.f[0] = 10;
  for (const RefOptions& options : {RefOptions{}, RefOptions{.u = unit_roundoff(DType::kF32)}}) {
    const auto out = run_reference(*g, std::vector<RefTensor>{x, k}, options);
    ASSERT_TRUE(out.ok()) << out.error().text();
    EXPECT_EQ((*out)[0].i[0], 7);
    EXPECT_LT((*out)[1].f[0], 7) << "an exact product";
    EXPECT_LT((*out)[2].f[0], 7) << "a scalar that no integer is cast from";
  }
}

}  // namespace
}  // namespace peri::ops
