// Every kernel of a GPU on every sample of every op, and on anchors with every activation behind them: what its text
// computes, run by the host, is right, and writes nothing beside its results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
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

// Memory of a thread's own, which registers should hold. The list of kernels that may take some is empty: none does, on
// any chip.
struct Local {
  int stack = 0, spilled = 0;  // bytes; of all kernels of a text the most
};

// From lines as ptxas writes them: "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads".
Local local_of(const std::string& log) {
  Local out;
  int kernels = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(" bytes stack frame");
    if (at == line.npos) continue;
    int stack = 0, stores = 0, loads = 0;
    const size_t begin = line.rfind(' ', at - 1) + 1;
    EXPECT_EQ(std::sscanf(line.c_str() + begin, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads",
                          &stack, &stores, &loads),
              3)
        << line;
    out.stack = std::max(out.stack, stack);
    out.spilled = std::max(out.spilled, stores + loads);
    ++kernels;
  }
  EXPECT_GT(kernels, 0) << "the log says nothing of memory: " << log;
  return out;
}

TEST(CudaText, MemoryOfThreadsIsReadFromTheLog) {
  const Local two = local_of(
      "ptxas info    : Function properties for peri_y\nptxas         .     0 bytes stack frame, 0 bytes spill stores, "
      "0 "
      "bytes spill loads\nptxas         .     2752 bytes stack frame, 3500 bytes spill stores, 3496 bytes spill "
      "loads\n");
  EXPECT_EQ(two.stack, 2752);
  EXPECT_EQ(two.spilled, 6996);
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
      const Local own = local_of(code->log);
      EXPECT_EQ(own.stack, 0) << name << " for " << chip;
      EXPECT_EQ(own.spilled, 0) << name << " for " << chip;
    }
  }
}

TEST(CudaText, IsRefusedForACpuAndAnOldChip) {
  const device::Target old = {device::Kind::kCuda, "a GPU", {"sm_75"}, 40, {}, {}};
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != "cuda" || !e->kernel.library.empty()) continue;
    for (const SampleProblem& p : common_problems())
      for (const device::Target& target : {device::cpu_target(1), old})
        EXPECT_FALSE(e->kernel.offer({&p.region, p.constant}, target).ok()) << e->kernel.name;
  }
}

}  // namespace
}  // namespace peri::tune
