// Every kernel of a GPU on every sample of every op, and on anchors with every activation behind them, in three types:
// the whole of what tune/cuda_text and tune/cuda_types take a part of.
#include <gtest/gtest.h>

#include "device/cuda/compiler.hpp"
#include "tests/tune/cuda_chips.hpp"

namespace peri::tune {
namespace {

class CudaWhole : public ::testing::TestWithParam<DType> {};

TEST_P(CudaWhole, ComputesWhatItsOpsMean) {
  const bool wide = GetParam() == DType::kF32;
  std::vector<SampleProblem> narrow;
  if (!wide) narrow = narrow_problems(GetParam());
  const std::vector<Case> cases = cuda_cases(wide ? common_problems() : narrow, wide);
  expect_cases(cases, wide, wide ? 4 : 2);
  run_cases(cases);
}

TEST(CudaWhole, IsCompiledForEachChip) {
  auto compiler = device::cuda::Compiler::open("");
  if (!compiler.ok()) GTEST_SKIP() << compiler.error().text();
  const std::vector<Case> cases = cuda_cases(common_problems(), true, {.run = false});
  compile_texts(**compiler, cases, [](const std::string&, std::string_view chip, bool first) {
    return first || chip == "sm_90a";  // one of each kernel for the others
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CudaWhole, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& each) { return std::string(dtype_name(each.param)); });

}  // namespace
}  // namespace peri::tune
