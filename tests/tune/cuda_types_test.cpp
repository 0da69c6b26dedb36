// The same kernels in float16 and bfloat16: samples of every op that can be stated in them, and anchors with some
// chains behind them, a part that the commit's hash takes (slow/cuda_whole.hpp: all). Sums are as good as
// float32's; only what is stored is rounded.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {

class CudaTypes : public ::testing::TestWithParam<DType> {};

TEST_P(CudaTypes, ComputeWhatTheirOpsMean) {
  std::vector<SampleProblem> problems = narrow_problems(GetParam());
  const std::vector<Case> cases = cuda_cases(problems, false, share_by_commit(32, 6));
  expect_cases(cases, false, 2);
  run_cases(cases);
}

INSTANTIATE_TEST_SUITE_P(Narrow, CudaTypes, ::testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& each) { return std::string(dtype_name(each.param)); });

// Most samples of each, in three types; the others are float64, float8, training, or several results.
TEST(CudaCoverage, TakesEveryCommonOp) {
  std::istringstream common(
      "conv conv_transpose matmul gemm attention softmax log_softmax layer_normalization rms_normalization "
      "group_normalization instance_normalization batch_normalization lrn mean_variance_normalization lp_normalization "
      "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum "
      "reduce_log_sum_exp max_pool average_pool lp_pool global_average_pool global_max_pool global_lp_pool gather "
      "gather_elements gather_nd transpose concat split slice expand tile where pad depth_to_space space_to_depth "
      "reverse_sequence resize cum_sum arg_max arg_min top_k one_hot trilu add sub mul div pow mod sqrt erf gelu relu "
      "clip "
      "equal less and not bitwise_and bit_shift min max mean sum tan cum_prod scatter_elements scatter_nd "
      "tensor_scatter quantize_linear dequantize_linear grid_sample rotary_embedding negative_log_likelihood_loss "
      "onnx_attention eye_like");
  for (std::string name; common >> name;) {
    const ops::OpDef* op = ops::find(name);
    ASSERT_TRUE(op) << name;
    const Coverage c = coverage(*op, "cuda", some_gpu());
    EXPECT_GT(c.taken, 0) << name;
    EXPECT_GE(10 * c.taken, 7 * c.all) << name << ": " << c.taken << " of " << c.all;
  }
}

// An index out of range touches nothing beside the data and is told by the step's word; one below 0 counts from the
// end.
TEST(CudaFaults, AreTold) {
  auto g = ir::parse_graph("graph { input data: f32[3,4]; input i: i64[4]; y = gather(data, i); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const std::vector<bool> constant = {false, false};
  kernels::Packed packed;
  const auto made = kernels::find("cuda_pick")->instantiate({&*g, constant}, "", {{}, &packed, &some_gpu(), nullptr});
  ASSERT_TRUE(made.ok()) << made.error().text();
  const auto& instance = dynamic_cast<const kernels::cuda::LaunchInstance&>(**made);
  ASSERT_EQ(instance.faults().size(), 1U);
  EXPECT_NE(instance.faults()[0].text().find("[-3, 2]"), std::string::npos) << instance.faults()[0].text();
  const kernels::cuda::KernelLaunch& l = instance.launches()[0];
  HostGpu gpu;
  gpu.add(l.text, l.entry);
  const std::string folder = ::testing::TempDir() + "peri_faults_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const Status compiled = gpu.compile(folder);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  std::vector<float> data(12), y(16);
  for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>(k);
  for (const int64_t wild : {int64_t{1}, int64_t{-3}, int64_t{3}, int64_t{-4}, INT64_MAX, INT64_MIN}) {
    std::vector<int64_t> index = {2, wild, 0, -1};
    int32_t fault = 0;
    std::vector<void*> addresses;
    for (const kernels::cuda::LaunchArgument& a : l.arguments) {
      using From = kernels::cuda::LaunchArgument::From;
      addresses.push_back(a.from == From::kFault    ? static_cast<void*>(&fault)
                          : a.from == From::kOutput ? static_cast<void*>(y.data())
                          : a.index == 0            ? static_cast<void*>(data.data())
                                                    : static_cast<void*>(index.data()));
    }
    gpu.run(l, addresses);
    EXPECT_EQ(fault, wild >= -3 && wild < 3 ? 0 : 1) << wild;
    EXPECT_EQ(y[0], 8) << wild;
    EXPECT_EQ(y[15], 11) << wild;
  }
}

}  // namespace
}  // namespace peri::tune
