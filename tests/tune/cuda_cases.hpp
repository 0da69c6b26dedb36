// GPU kernels on the samples of all ops: their launches executed by the host, compared with the reference.
#pragma once

#include <memory>

#include "kernels/cuda/code/launch.hpp"
#include "tests/tune/host_gpu.hpp"
#include "tune/sample_regions.hpp"

namespace peri::tune {

// The target for which the kernels of a test plan.
const device::Target& some_gpu();

struct Case {
  const kernels::Kernel* kernel;
  SampleProblem* problem;
  std::string config;
  ir::Graph region;  // in the offer's layouts
  std::unique_ptr<kernels::Instance> instance;
  const std::vector<kernels::cuda::KernelLaunch>& launches() const;
  std::vector<Tensor> packed() const;
  std::string name() const;
};

// Samples of float32 in another type; of those with several nodes every fifth.
std::vector<SampleProblem> narrow_problems(DType type);

// The selection of cases: all, or two of each kernel, each configuration once, every `ops`-th op of each kernel, and of
// the rest every `of`-th, depending on the seed.
struct Share {
  uint64_t of = 1, ops = 1, seed = 0;
  bool run = true;               // false: results are not computed, the cases are only inspected
  uint64_t part = 0, parts = 1;  // selects one of this many parts of the kernels, for tests with a time limit each
  bool has(std::string_view kernel) const;
};
// Seeded by the commit's hash, which is printed; TEST_SEED=N selects the cases of that run again.
Share share_by_commit(uint64_t of, uint64_t ops);

// Every kernel of the executor "cuda" on those of the problems that it supports, and with `own` on its own samples:
// with its best estimate on all of them, with other configurations on a few. `problems` must outlive the cases.
std::vector<Case> cuda_cases(std::vector<SampleProblem>& problems, bool own = false, Share share = {});
// Expects at least this many cases for each kernel that has a text; `own` and `share` as above.
void expect_cases(const std::vector<Case>& cases, bool own, int least, const Share& share = {});
// Compiles the texts of all cases and runs each: results are correct, and nothing is written outside them.
void run_cases(const std::vector<Case>& cases);
// The same; consecutive cases of one kernel and problem also give the same bits.
void run_alike(const std::vector<Case>& cases);
// A kernel's first offer for a problem, then at most `most` settings of its tunables; none if it refuses the problem.
std::vector<Case> cases_of_settings(const kernels::Kernel& kernel, SampleProblem& problem, size_t most = 64);

}  // namespace peri::tune
