// Every kernel of a GPU on every sample of every op, and on anchors with every activation behind them: what its text
// computes, run by the host, is right, and writes nothing beside its results.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "device/cuda/compiler.hpp"
#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {
using kernels::cuda::KernelLaunch;

TEST(CudaText, ComputesWhatItsOpsMean) {
  const std::vector<Case> cases = cuda_cases(common_problems(), true);
  std::map<std::string_view, int> count;
  for (const Case& c : cases) ++count[c.kernel->name];
  for (const kernels::Entry* e : kernels::entries())
    if (e->kernel.executor == "cuda" && e->kernel.library.empty())
      EXPECT_GE(count[e->kernel.name], 4) << e->kernel.name;
  run_cases(cases);
}

// One text of each kernel and configuration, and one of each kernel for each class of chips.
TEST(CudaText, IsCompiledForEachChip) {
  auto compiler = device::cuda::Compiler::open("");
  if (!compiler.ok()) GTEST_SKIP() << compiler.error().text();
  const auto known = (*compiler)->chips();
  ASSERT_TRUE(known.ok()) << known.error().text();
  std::map<std::string, const KernelLaunch*> texts;  // the longest
  const std::vector<Case> cases = cuda_cases(common_problems(), true);
  for (const Case& c : cases)
    for (const KernelLaunch& l : c.launches()) {
      const KernelLaunch*& kept = texts[std::string(c.kernel->name) + " {" + c.config + "}"];
      if (!kept || kept->text.size() < l.text.size()) kept = &l;
    }
  for (const char* chip : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    if (std::find(known->begin(), known->end(), std::atoi(chip + 3)) == known->end()) continue;
    std::string_view last;
    for (const auto& [name, launch] : texts) {
      const std::string_view kernel = std::string_view(name).substr(0, name.find(' '));
      if (std::string_view(chip) != "sm_90a" && kernel == std::exchange(last, kernel)) continue;  // one of each kernel
      const auto code = (*compiler)->compile({name, launch->text, chip});
      ASSERT_TRUE(code.ok()) << name << ": " << code.error().text();
      EXPECT_NE(code->cubin.find(launch->entry), std::string::npos) << name;
      EXPECT_EQ(code->log.find("warning"), std::string::npos) << name << ": " << code->log;
    }
  }
}

TEST(CudaText, IsRefusedForACpuAndAnOldChip) {
  const device::Target old = {device::Kind::kCuda, "a GPU", {"sm_75"}, 40, {}, {}};
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != "cuda") continue;
    for (const SampleProblem& p : common_problems())
      for (const device::Target& target : {device::cpu_target(1), old})
        EXPECT_FALSE(e->kernel.offer({&p.region, p.constant}, target).ok()) << e->kernel.name;
  }
}

}  // namespace
}  // namespace peri::tune
