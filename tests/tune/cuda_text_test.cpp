// Every kernel of a GPU on samples of every op, and on anchors with activations behind them, a part that the commit's
// hash takes (slow/cuda_whole.hpp: all): what its text computes, run by the host, is right, and writes nothing
// beside its results.
#include <gtest/gtest.h>

#include "base/hash.hpp"
#include "device/cuda/compiler.hpp"
#include "tests/tune/cuda_chips.hpp"

namespace peri::tune {
namespace {

TEST(CudaText, ComputesWhatItsOpsMean) {
  const std::vector<Case> cases = cuda_cases(common_problems(), true, share_by_commit(24, 2));
  expect_cases(cases, true, 2);
  run_cases(cases);
}

TEST(CudaText, MemoryOfThreadsIsReadFromTheLog) {
  const OwnMemory two = own_memory(
      "ptxas info    : Function properties for peri_y\nptxas         .     0 bytes stack frame, 0 bytes spill stores, "
      "0 "
      "bytes spill loads\nptxas         .     2752 bytes stack frame, 3500 bytes spill stores, 3496 bytes spill "
      "loads\n");
  EXPECT_EQ(two.stack, 2752);
  EXPECT_EQ(two.spilled, 6996);
}

// A part that the commit's hash takes of what slow/cuda_chips_test.cpp does whole: of each kernel one text for sm_90a
// and one for another chip, and every third of the other configurations.
TEST(CudaText, IsCompiledForEachChip) {
  auto compiler = device::cuda::Compiler::open("");
  if (!compiler.ok()) GTEST_SKIP() << compiler.error().text();
  const uint64_t seed = share_by_commit(1, 1).seed;
  const std::vector<Case> cases = cuda_cases(common_problems(), true, {.run = false});
  compile_texts(**compiler, cases, [&](const std::string& name, std::string_view chip, bool first) {
    if (chip == "sm_90a") return first || hash_text(name, seed) % 3 == 0;
    static const std::vector<std::string_view> kOthers = {"sm_80", "sm_100a", "sm_120a"};
    return first && chip == kOthers[hash_text(name, seed) % 3];
  });
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
