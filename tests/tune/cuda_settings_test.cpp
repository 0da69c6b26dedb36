// Tunables of GPU kernels: every value of every one gives the bits of the derived plan on the kernel's own samples, and
// one of the op where it has none; each divides the work, or uses shared memory, in another way somewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {

// Rows, lines and elements enough for several blocks.
constexpr std::string_view kMore[] = {
    "graph { input x: f32[37,50]; y = softmax(x); output y }",
    "graph { input x: f16[37,64]; y = softmax(x); output y }",
    "graph { input x: f32[700,9]; const a: i64[1] = [1]; y = reduce_sum(x, a); output y }",
    "graph { input x: f32[9,700]; const a: i64[1] = [1]; y = reduce_max(x, a); output y }",
    "graph { input x: f32[9,701]; y = relu(x); output y }",
    "graph { input x: f16[50,800]; y = sigmoid(x); output y }",
    "graph { input q: f32[1,2,7,16]; input k: f32[1,2,9,16]; input v: f32[1,2,9,16]; y = attention(q, k, v); output y "
    "}",
    "graph { input q: f16[1,2,70,32]; input k: f16[1,2,300,32]; input v: f16[1,2,300,32]; y = attention(q, k, v); "
    "output y }",
};

SampleProblem problem_of(std::string_view text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  std::vector<bool> constant(g->inputs.size(), false);
  return {std::move(*g), std::move(constant)};
}

TEST(CudaSettings, ChangeHowWorkIsCutAndNoBit) {
  std::vector<SampleProblem> more;
  for (const std::string_view text : kMore) more.push_back(problem_of(text));
  std::set<std::string> declared, turned;
  std::vector<std::vector<SampleProblem>> kept;  // of the cases
  kept.reserve(kernels::entries().size());
  std::vector<Case> cases;
  for (const kernels::Entry* e : kernels::entries()) {
    const kernels::Kernel& kernel = e->kernel;
    // tests/tune/cuda_mma_test.cpp turns those of tiles.
    const bool tiled =
        std::any_of(kernel.tunables.begin(), kernel.tunables.end(), [](auto& t) { return t.name == "tk"; });
    if (kernel.executor != "cuda" || kernel.tunables.empty() || tiled) continue;
    for (const kernels::Tunable& t : kernel.tunables)
      declared.insert(std::string(kernel.name) + " " + std::string(t.name));
    kept.push_back(own_problems(kernel));
    for (auto* const list : {&kept.back(), &more})
      for (SampleProblem& p : *list) {
        std::vector<Case> of_problem = cases_of_settings(kernel, p);
        for (const Case& c : of_problem) {
          if (c.instance->needs() == of_problem.front().instance->needs()) continue;
          const std::string word = c.config.substr(c.config.rfind(' ') + 1);
          turned.insert(std::string(kernel.name) + " " + word.substr(0, word.find('=')));
        }
        std::move(of_problem.begin(), of_problem.end(), std::back_inserter(cases));
      }
  }
  EXPECT_EQ(turned, declared) << "each cuts work in another way somewhere";
  run_alike(cases);
}

TEST(CudaSettings, OtherValuesAreRefused) {
  SampleProblem p = problem_of("graph { input x: f32[37,50]; y = softmax(x); output y }");
  const kernels::Kernel& kernel = *kernels::find("cuda_norm");
  for (const char* value : {"3", "0", "-1", "x", "99999999999999999999"}) {
    kernels::Packed packed;
    const std::vector<Tensor> none(1);
    EXPECT_FALSE(
        kernel
            .instantiate({&p.region, p.constant}, std::string("turns=") + value, {none, &packed, &some_gpu(), nullptr})
            .ok())
        << value;
  }
}

}  // namespace
}  // namespace peri::tune
