// Kernels of a GPU on the samples of all ops: their launches as the host runs them, held against the reference.
#pragma once

#include <memory>

#include "kernels/cuda/code/launch.hpp"
#include "tests/tune/host_gpu.hpp"
#include "tune/sample_regions.hpp"

namespace peri::tune {

// What the kernels of a test plan for.
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

// Samples of float32 in another type; of several nodes every fifth.
std::vector<SampleProblem> narrow_problems(DType type);

// Which cases of many are taken: all, or two of each kernel, each configuration once, every `ops`-th op of each kernel,
// and of the rest every `of`-th, as the seed has it.
struct Share {
  uint64_t of = 1, ops = 1, seed = 0;
  bool run = true;               // false: answers are not made, the cases are only looked at
  uint64_t part = 0, parts = 1;  // which of so many parts of the kernels, for tests with a time limit each
  bool has(std::string_view kernel) const;
};
// By the commit's hash, which is printed; TEST_SEED=N takes the cases of a run again.
Share share_by_commit(uint64_t of, uint64_t ops);

// Every kernel of the executor "cuda" on those of the problems that it takes, and of its own samples where `own` is
// asked for: with its best guess on all of them, with other configurations on a few. `problems` must outlive the cases.
std::vector<Case> cuda_cases(std::vector<SampleProblem>& problems, bool own = false, Share share = {});
// How many cases each kernel that has a text has at least; `own` and `share` as above.
void expect_cases(const std::vector<Case>& cases, bool own, int least, const Share& share = {});
// Compiles the texts of all cases and runs each: results are right, and nothing is written beside them.
void run_cases(const std::vector<Case>& cases);

}  // namespace peri::tune
