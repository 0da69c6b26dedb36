// Inputs of a whole model lie where its ops can take them.
#include "judge/inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/entry.hpp"

namespace peri::judge {
namespace {

TEST(Inputs, RegionsOfInterestLieInTheirImages) {
  auto g = ir::parse_graph(
      "graph { input x: f32[batch,2,40,width]; input r: f32[20,5]; y = max_roi_pool(x, r) {pooled_shape=[3,4], "
      "spatial_scale=0.25}; output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  for (const int64_t batch : {1, 3})
    for (const auto how : {Integers::kIndices, Integers::kZero, Integers::kOne}) {
      const auto inputs = make_inputs(*g, {{"batch", batch}, {"width", 50}}, 7, how);
      ASSERT_TRUE(inputs.ok());
      std::vector<ops::RefTensor> in;
      for (const Tensor& t : *inputs) in.push_back(ops::to_ref(t));
      const auto out = ops::run_reference(*g, in);
      ASSERT_TRUE(out.ok()) << out.error().text();
      const auto filled = std::count_if((*out)[0].f.begin(), (*out)[0].f.end(), [](double v) { return v != 0; });
      EXPECT_GT(filled, std::ssize((*out)[0].f) / 2) << "bins that hold something";
    }
}

}  // namespace
}  // namespace peri::judge
