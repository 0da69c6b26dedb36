// Builds for a GPU that is none (the fake driver runs what the host compiles): what is chosen is what was timed, the
// whole graph has the last word, and what it takes stands beside what was predicted.
#include <gtest/gtest.h>

#include "backends/cuda/backend.hpp"
#include "bench/step_graphs.hpp"
#include "build/build.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"
#include "device/cuda/code_shelf.hpp"
#include "exec/entry.hpp"
#include "plan/chip.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/tune/planted_pair.hpp"
#include "tests/tune/planted_sum.hpp"
#include "tune/crossing.hpp"

namespace peri::build {
namespace {
using device::tests::Fakes;
using device::tests::Variable;
using tune::planted::products_kernel;
using tune::planted::sum_kernel;

class CudaTrials : public device::tests::HostedGpu {
 protected:
  // Timed and not verified: the samples of a kernel are many texts for the host's compiler.
  static Result<Built> built(const char* text, const std::string& provider = "", const std::string& device = "",
                             int64_t batch = 0, const std::string& cache = "") {
    compile::Imported model;
    auto g = ir::parse_graph(text);
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
    model.graph = std::move(*g);
    Options o;
    o.compile.model = "planted";
    o.compile.backend = "cuda";
    o.compile.device = device;
    if (batch > 0) o.compile.dims["batch"] = batch;
    o.compile.tune.provider = provider;
    o.compile.tune.verify = false;
    o.compile.tune.budget_ms = 1;
    o.compile.tune.cache_path = cache;
    o.judge = false;
    static const auto kTable = exec::table();
    o.executors = kTable;
    return build_engine(o, std::move(model));
  }
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

TEST_F(CudaTrials, FromTheCacheNothingIsCompiledOrTriedAgain) {
  const char* const text =
      "graph { input x: f32[30,40]; const w: f32[30,40] = seeded(0.3, 1); a = add(x, w); t = concat(a, x) {axis=0}; y "
      "= sigmoid(t); output y }";
  const std::string cache = (folder_.path / "times").string();
  const auto first = built(text, "", "", 0, cache);
  ASSERT_TRUE(first.ok()) << first.error().text();
  EXPECT_GT(first->compiled.tuned.measured, 0);
  EXPECT_GT(first->whole.seconds, 0) << "its whole graph was timed";
  const auto shelf = device::cuda::CodeShelf::of_process();
  ASSERT_TRUE(shelf.ok()) << shelf.error().text();
  const int64_t compiled = (*shelf)->compiler().counts().compiled;
  const auto second = built(text, "", "", 0, cache);
  ASSERT_TRUE(second.ok()) << second.error().text();
  EXPECT_EQ(second->compiled.tuned.measured, 0);
  EXPECT_EQ((*shelf)->compiler().counts().compiled, compiled);
  EXPECT_TRUE(second->whole.timed);
  EXPECT_EQ(second->whole.seconds, 0) << "what it decided is known";
  EXPECT_EQ(second->whole.measured_ms, first->whole.measured_ms);
  EXPECT_EQ(second->whole.swaps.size(), first->whole.swaps.size());
  EXPECT_EQ(plan::lock_text(second->compiled.lock), plan::lock_text(first->compiled.lock));
}

TEST_F(CudaTrials, AnEngineSaysForWhichChipItWasTuned) {
  const auto b = built("graph { input x: f32[30,40]; const w: f32[30,40] = seeded(0.3, 1); y = add(x, w); output y }");
  ASSERT_TRUE(b.ok()) << b.error().text();
  const plan::Program& p = b->compiled.program;
  EXPECT_EQ(plan::chip_of(p), "Fake H200 (132 multiprocessors)");
  EXPECT_EQ(tuned_elsewhere(p, chip_here(p, "")), "") << "it is the one here";
  const std::string other = tuned_elsewhere(p, "Other (114 multiprocessors)");
  for (const char* part :
       {"tuned for Fake H200 (132", "this is Other (114", "peri build MODEL -o ENGINE --backend cuda"})
    EXPECT_NE(other.find(part), std::string::npos) << other;
  const Fakes none{{"libnvidia-ml.so.1", "nvrtc"}};
  EXPECT_EQ(chip_here(p, ""), "") << "without a driver nothing is said of it";
  EXPECT_EQ(tuned_elsewhere(p, ""), "");
}

TEST_F(CudaTrials, ABuildForTheSecondGpuUsesNoOther) {
  const Variable two("FAKE_CUDA_DEVICES", "2"), second("FAKE_CUDA_ONLY", "1");
  const char* const text =
      "graph { input x: f32[30,40]; const w: f32[30,40] = seeded(0.3, 1); y = add(x, w); output y }";
  const auto b = built(text, "", "cuda:1");
  ASSERT_TRUE(b.ok()) << b.error().text();
  for (const lower::StepReport& s : b->compiled.steps)
    EXPECT_TRUE(s.conversion || s.evidence.timed()) << s.name << ": " << s.evidence.rejected << s.evidence.untimed;
  EXPECT_TRUE(b->whole.timed);
  const auto first = built(text);  // which may not be used: nothing runs there, and the reason is told
  ASSERT_TRUE(first.ok()) << first.error().text();
  EXPECT_EQ(first->compiled.program.devices.size(), 1u);
  ASSERT_EQ(first->compiled.on_host.size(), 1u);
  EXPECT_NE(first->compiled.on_host[0].reason.find("(46)"), std::string::npos) << first->compiled.on_host[0].reason;
}

// A sum that refuses one row: by another kernel there, in the same program; never while candidates are tried.
Result<std::unique_ptr<kernels::Instance>> make_rows(const kernels::Problem& p, std::string_view config,
                                                     const kernels::InstantiateContext& c) {
  if (kernels::dims_of(*p.graph->outputs[0])[0] == 1) return refused("one row");
  return sum_kernel<0>().instantiate(p, config, c);
}

TEST_F(CudaTrials, ASizeThatTheKernelRefusesIsTakenByAnother) {
  kernels::Kernel rows = sum_kernel<0>();
  rows.name = "planted_rows";
  rows.instantiate = make_rows;
  rows.tunables = {};
  const kernels::AddedKernel known(rows);
  auto b =
      built("graph { input x: f32[batch,40]; input w: f32[batch,40]; y = add(x, w); output y }", "planted", "", 30);
  ASSERT_TRUE(b.ok()) << b.error().text();
  ASSERT_EQ(b->compiled.steps[0].chosen, "planted_rows@1 {}");
  const auto table = exec::table();
  runtime::WeightSource weights;
  weights.tensors = b->compiled.weights;
  const auto engine = runtime::Engine::create(b->compiled.program, weights, engine_options(table, 1));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  for (const int64_t batch : {30, 1, 7, 1}) {
    const Tensor x = Tensor::of_f32({batch, 40}, std::vector<float>(static_cast<size_t>(batch) * 40, 2.5F));
    const auto out = (*session)->run(std::vector<Tensor>{x, x});
    ASSERT_TRUE(out.ok()) << out.error().text();
    for (int64_t k = 0; k < batch * 40; ++k) ASSERT_EQ((*out)[0].f64(k), 5);
  }
  runtime::EngineOptions choosing = engine_options(table, 1);
  choosing.choosing = true;
  const auto tried = runtime::Engine::create(b->compiled.program, weights, choosing);
  ASSERT_TRUE(tried.ok()) << tried.error().text();
  const Tensor one = Tensor::of_f32({1, 40}, std::vector<float>(40, 1.0F));
  const auto refused_one = (*runtime::Session::create(*tried))->run(std::vector<Tensor>{one, one});
  ASSERT_FALSE(refused_one.ok());
  EXPECT_NE(refused_one.error().text().find("one row"), std::string::npos) << refused_one.error().text();
}

// A sum between steps that only the host takes: it stays with them where copies are expensive, and goes where they are
// not.
TEST_F(CudaTrials, WhereARegionRunsHangsOnWhatCopiesCost) {
  const kernels::AddedKernel fast(sum_kernel<0>());
  auto g = ir::parse_graph(
      "graph { input x: f32[600,800]; input w: f32[600,800]; a = einsum(x) {equation=\"ij->ji\"}; b = einsum(w) "
      "{equation=\"ij->ji\"}; s = add(a, b); y = einsum(s) {equation=\"ij->ji\"}; output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  for (const bool expensive : {true, false}) {
    lower::Backend backend = backends::cuda::backend();
    backend.cross_ms =
        expensive ? [](tune::Tuner&, double) { return 100.0; } : [](tune::Tuner&, double) { return 0.0; };
    tune::Options o;
    o.verify = false;
    o.budget_ms = 1;
    o.executors = backend.executors;
    o.own_executor = "cuda";
    o.target = device::cpu_target(1, exec::libraries());
    o.target->isas.push_back("sm_90");
    tune::Tuner tuner(o);
    const auto l = lower::lower_graph(*g, backend, tuner, {});
    ASSERT_TRUE(l.ok()) << l.error().text();
    std::string executor;
    for (const plan::Step& s : l->program.steps)
      if (s.name == "s") executor = s.executor;
    EXPECT_EQ(executor, expensive ? "cpu" : "cuda");
    EXPECT_EQ(l->on_host.size(), expensive ? 4u : 3u);
    for (const lower::HostRegion& h : l->on_host)
      if (h.name == "s") EXPECT_NE(h.reason.find("more than this with its copies"), std::string::npos) << h.reason;
  }
}

// Three small steps between two that only the host takes, of which the one in the middle touches none of these: all
// stay there, where a copy takes longer than they do.
TEST_F(CudaTrials, SmallStepsBetweenTwoOfTheHostStayThereTogether) {
  auto g = ir::parse_graph(
      "graph { input x: f32[30,40]; const r: i64[1] = [1]; a = einsum(x) {equation=\"ij->ji\"}; p = concat(a, a) "
      "{axis=1}; m = reduce_min(p, r) {keepdims=1}; q = concat(m, m) {axis=1}; y = einsum(q) {equation=\"ij->ji\"}; "
      "output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  lower::Backend backend = backends::cuda::backend();
  backend.cross_ms = [](tune::Tuner&, double) { return 100.0; };
  tune::Options o;
  o.verify = false;
  o.budget_ms = 1;
  o.executors = backend.executors;
  o.own_executor = "cuda";
  o.target = device::cpu_target(1, exec::libraries());
  o.target->isas.push_back("sm_90");
  tune::Tuner tuner(o);
  const auto l = lower::lower_graph(*g, backend, tuner, {});
  ASSERT_TRUE(l.ok()) << l.error().text();
  for (const plan::Step& s : l->program.steps) EXPECT_EQ(s.device, plan::kHost) << s.name << " on " << s.executor;
  int beside = 0;
  for (const lower::HostRegion& h : l->on_host)
    beside += h.reason.find("more than this with its copies") != std::string::npos;
  EXPECT_EQ(beside, 3) << "the device takes them too";
}

// An engine holds no code: it runs on any chip of its class. On one of another its first run is refused.
TEST_F(CudaTrials, AnEngineForANewerClassOfChipsIsRefusedWithTheCommandThatRebuildsIt) {
  const auto b = built("graph { input x: f32[30,40]; input w: f32[30,40]; y = add(x, w); output y }");
  ASSERT_TRUE(b.ok()) << b.error().text();
  const auto table = exec::table();
  const Tensor x = *Tensor::zeros(DType::kF32, {30, 40});
  const auto ran = [&](const char* major) -> Status {
    const Variable chip("FAKE_CUDA_MAJOR", major);
    PERI_ASSIGN(const auto engine, runtime::Engine::create(b->compiled.program, {}, engine_options(table, 1)));
    PERI_ASSIGN(const auto session, runtime::Session::create(engine));
    const auto out = session->run(std::vector<Tensor>{x, x});
    return out.ok() ? Status(Ok{}) : Status(out.error());
  };
  for (const char* major : {"8", "9"}) EXPECT_TRUE(ran(major).ok()) << major;
  const Status old = ran("7");
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().kind, ErrorKind::kRefused);
  for (const char* part : {"its GPU is too old", "expected sm_80", "found sm_70", "peri build MODEL"})
    EXPECT_NE(old.error().text().find(part), std::string::npos) << part << " in " << old.error().text();
}

// The price is measured on the device, by the worker or here.
TEST_F(CudaTrials, ACopyIsTimedWhereCandidatesAre) {
  for (const bool measure : {false, true}) {
    tune::Options o;
    o.measure = measure;
    tune::Tuner tuner(o);
    const double small = tuner.crossing_ms("cuda", 4), large = tuner.crossing_ms("cuda", 64e6);
    EXPECT_GT(small, 0);
    EXPECT_GT(large, small);
    EXPECT_EQ(small == tune::Crossing().ms(4), !measure) << small;
  }
}

// Two products take 82 units of the fake's clock, a launch each and its blocks. One kernel for both takes as long, or
// what no two measurements differ by more: one launch more counts.
TEST_F(CudaTrials, OfTimesThatAreTheSameFewerLaunchesAreTaken) {
  const kernels::Kernel one = products_kernel<1, 40>("planted_one"), same = products_kernel<2, 81>("planted_pair"),
                        slower = products_kernel<2, 87>("planted_pair");
  const kernels::AddedKernel known(one);
  for (const kernels::Kernel* both : {&same, &slower}) {
    const kernels::AddedKernel pair(*both);
    const auto b = built(
        "graph { input x: f32[8,8]; input w: f32[8,8]; input v: f32[8,8]; p = matmul(x, w); y = matmul(p, v); output y "
        "}",
        "planted");
    ASSERT_TRUE(b.ok()) << b.error().text();
    std::vector<std::string> chosen;
    for (const lower::StepReport& s : b->compiled.steps)
      if (!s.conversion) chosen.push_back(s.chosen.substr(0, s.chosen.find('@')));
    EXPECT_EQ(chosen, both == &same ? std::vector<std::string>{"planted_pair"}
                                    : (std::vector<std::string>{"planted_one", "planted_one"}));
  }
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
  EXPECT_EQ(b->whole.predicted_ms, b->whole.off[0].predicted_ms) << "neither the host's step nor its wait is in it";
  EXPECT_NEAR(b->whole.off[0].measured_ms - b->whole.off[0].predicted_ms, 10e-3, 1e-6);
}

}  // namespace
}  // namespace peri::build
