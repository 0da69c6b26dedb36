// Builds for a GPU that is none (the fake driver runs what the host compiles): what is chosen is what was timed, the
// whole graph has the last word, and what it takes stands beside what was predicted.
#include <gtest/gtest.h>

#include "bench/step_graphs.hpp"
#include "build/build.hpp"
#include "build/proof.hpp"
#include "exec/entry.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/tune/planted_sum.hpp"

namespace peri::build {
namespace {
using device::tests::Fakes;
using device::tests::Folder;
using device::tests::Variable;
using tune::planted::sum_kernel;

class CudaTrials : public testing::Test {
 protected:
  void SetUp() override {
    compiled_.emplace("FAKE_CUDA_COMPILES", folder_.path.string());
    cache_.emplace("PERI_CACHE", (folder_.path / "cache").string());
    Fakes::control<void()>("driver", "fake_reset")();
  }
  // Timed and not verified: the samples of a kernel are many texts for the host's compiler.
  static Result<Built> built(const char* text, const std::string& provider = "") {
    compile::Imported model;
    auto g = ir::parse_graph(text);
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
    model.graph = std::move(*g);
    Options o;
    o.compile.model = "planted";
    o.compile.backend = "cuda";
    o.compile.tune.provider = provider;
    o.compile.tune.verify = false;
    o.compile.tune.budget_ms = 1;
    o.judge = false;
    static const auto kTable = exec::table();
    o.executors = kTable;
    return build_engine(o, std::move(model));
  }
  Folder folder_;
  Fakes fakes_{{"libcuda.so.1", "driver"}, {"libnvidia-ml.so.1", "nvrtc"}, {"libnvrtc.so.13", "nvrtc"}};
  std::optional<Variable> compiled_, cache_;
};

TEST_F(CudaTrials, StepsAreTimedAndTheGraphTakesTheirSum) {
  const auto b = built(
      "graph { input x: f32[30,40]; const w: f32[30,40] = seeded(0.3, 1); a = add(x, w); t = concat(a, x) {axis=0}; y "
      "= sigmoid(t); output y }");
  ASSERT_TRUE(b.ok()) << b.error().text();
  double sum = 0, copies = 0;
  for (const lower::StepReport& s : b->compiled.steps) {
    copies += s.conversion ? 1 : 0;
    if (s.conversion) continue;
    EXPECT_EQ(s.evidence.statistic, tune::kChainStatistic) << s.name << ": " << s.evidence.untimed;
    sum += s.evidence.time_ms;
  }
  ASSERT_TRUE(b->whole.timed);
  EXPECT_NEAR(b->whole.predicted_ms, sum, 1e-9);
  EXPECT_NEAR(b->whole.measured_ms, sum + (copies + 1) * 1e-3, 1e-6) << "copies and the fake's least time";
  runtime::WeightSource weights;
  weights.tensors = b->compiled.weights;
  const auto table = exec::table();
  const auto engine = runtime::Engine::create(b->compiled.program, std::move(weights), engine_options(table, 1));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  const std::vector<Tensor> x = {*Tensor::zeros(DType::kF32, {30, 40})};
  ASSERT_TRUE((*session)->run(x).ok());
  const auto times = bench::time_steps(**session, 0.01);
  ASSERT_TRUE(times.ok()) << times.error().text();
  double all = 0;
  for (size_t k = 0; k < times->steps.size(); ++k) {
    all += times->ms[k];
    if (const auto& s = b->compiled.steps[times->steps[k]]; !s.conversion)
      EXPECT_NEAR(times->ms[k], s.evidence.time_ms + (k == 0 ? 1e-3 : 0), 1e-6) << "the first with the least time";
  }
  EXPECT_NEAR(all, times->run_ms, 1e-9);
  const auto proof = parse_json(proof_json(*b, {}));
  ASSERT_TRUE(proof.ok()) << proof.error().text();
  const Json* const whole = proof->find("whole_graph");
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(*whole->get_double("measured_ms"), b->whole.measured_ms);
}

TEST_F(CudaTrials, TheWholeGraphHasTheLastWord) {
  const kernels::AddedKernel one(sum_kernel<0, 19>()), two(sum_kernel<0, 20>());
  const char* const text =
      "graph { input x: f32[30,40]; const w: f32[30,40] = seeded(0.3, 1); y = add(x, w); output y }";
  const auto chosen = [](const Built& b) {
    for (const lower::StepReport& s : b.compiled.steps)
      if (!s.conversion) return s.chosen;
    return std::string();
  };
  auto b = built(text, "planted");
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_EQ(chosen(*b), "planted_sum_0_19@1 {}");
  ASSERT_EQ(b->whole.swaps.size(), 1u) << "the other is close";
  EXPECT_FALSE(b->whole.swaps[0].kept);
  EXPECT_GT(b->whole.swaps[0].instead_ms, b->whole.swaps[0].chosen_ms);

  const Variable cold("FAKE_CUDA_COLD", "planted_19");
  b = built(text, "planted");
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_EQ(chosen(*b), "planted_sum_0_20@1 {}");
  ASSERT_EQ(b->whole.swaps.size(), 1u);
  EXPECT_TRUE(b->whole.swaps[0].kept);
  EXPECT_LT(b->whole.swaps[0].instead_ms, b->whole.swaps[0].chosen_ms);
}

TEST_F(CudaTrials, StepsThatAreFarOffAreNamed) {
  const kernels::AddedKernel one(sum_kernel<0, 19>());
  const Variable cold("FAKE_CUDA_COLD", "planted_19");
  // x is read on the host too, where nobody planted a relu: a copy of it stands before the sum.
  const auto b = built(
      "graph { input x: f32[30,40]; const w: f32[30,40] = seeded(0.3, 1); y = add(x, w); z = relu(x); output y; output "
      "z }",
      "planted");
  ASSERT_TRUE(b.ok()) << b.error().text();
  ASSERT_EQ(b->whole.off.size(), 1u);
  EXPECT_EQ(b->whole.off[0].name, "y");
  EXPECT_NEAR(b->whole.off[0].measured_ms - b->whole.off[0].predicted_ms, 10e-3, 1e-6);
}

}  // namespace
}  // namespace peri::build
