// The same kernels in float16 and bfloat16: every sample of every op that can be stated in them, and anchors with some
// chains behind them. Sums are as good as float32's; only what is stored is rounded.
#include <gtest/gtest.h>

#include <map>

#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {

// Samples of float32 in another type; of several nodes every fifth.
std::vector<SampleProblem> problems_in(DType type) {
  std::vector<SampleProblem> out;
  size_t turn = 0;
  for (const SampleProblem& p : common_problems()) {
    if (p.region.nodes.size() > 1 && turn++ % 5 != 0) continue;
    if (std::optional<SampleProblem> q = in_type(p, type)) out.push_back(std::move(*q));
  }
  return out;
}

class CudaTypes : public ::testing::TestWithParam<DType> {};

TEST_P(CudaTypes, ComputeWhatTheirOpsMean) {
  std::vector<SampleProblem> problems = problems_in(GetParam());
  const std::vector<Case> cases = cuda_cases(problems);
  std::map<std::string_view, int> count;
  for (const Case& c : cases) ++count[c.kernel->name];
  for (const kernels::Entry* e : kernels::entries())
    if (e->kernel.executor == "cuda") EXPECT_GE(count[e->kernel.name], 2) << e->kernel.name;
  run_cases(cases);
}

INSTANTIATE_TEST_SUITE_P(Narrow, CudaTypes, ::testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& each) { return std::string(dtype_name(each.param)); });

// What no kernel of a GPU takes is known by name: an op that joins them leaves this list.
TEST(CudaTypes, TakeEveryCommonOp) {
  const std::string_view common[] = {
      "conv", "conv_transpose", "matmul", "gemm", "attention", "softmax", "log_softmax", "layer_normalization",
      "rms_normalization", "group_normalization", "instance_normalization", "batch_normalization", "lrn",
      "mean_variance_normalization", "lp_normalization", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
      "reduce_prod", "reduce_l1", "reduce_l2", "reduce_sum_square", "reduce_log_sum", "reduce_log_sum_exp",
      "average_pool", "global_average_pool", "global_max_pool", "gather", "gather_elements", "gather_nd",
      "transpose", "concat", "split", "slice", "expand", "tile", "where", "pad", "depth_to_space", "space_to_depth",
      "cum_sum", "arg_max", "arg_min", "top_k", "one_hot", "trilu", "add", "sub", "mul", "div", "pow", "mod", "sqrt",
      "erf", "gelu", "relu", "clip", "equal", "less", "and", "not", "bitwise_and", "min", "max", "mean", "sum", "tan"};
  for (const std::string_view name : common) {
    const ops::OpDef* op = ops::find(name);
    ASSERT_TRUE(op) << name;
    const Coverage c = coverage(*op, "cuda", some_gpu());
    EXPECT_GT(c.taken, 0) << name;
    EXPECT_EQ(c.taken, c.all) << name;
  }
}

}  // namespace
}  // namespace peri::tune
