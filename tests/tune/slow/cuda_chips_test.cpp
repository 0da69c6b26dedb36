// Every kernel of a GPU with every configuration for one chip, and one of each kernel for the others: it is compiled.
#include "tests/tune/cuda_chips.hpp"

#include <gtest/gtest.h>

#include "device/cuda/compiler.hpp"

namespace peri::tune {

TEST(CudaChips, EachKernelIsCompiledForEachChip) {
  auto compiler = device::cuda::Compiler::open("");
  if (!compiler.ok()) GTEST_SKIP() << compiler.error().text();
  const std::vector<Case> cases = cuda_cases(common_problems(), true, {.run = false});
  compile_texts(**compiler, cases,
                [](const std::string&, std::string_view chip, bool first) { return first || chip == "sm_90a"; });
}

}  // namespace peri::tune
