// A model of which the data decides sizes, planned for a recorded GPU: what stays on the host runs kernels at the sizes
// of the run, not definitions; on the null device its answers are those of the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "bench/steps.hpp"
#include "build/measured.hpp"
#include "build/open.hpp"
#include "compile/compile.hpp"
#include "device/target.hpp"
#include "ops/entry.hpp"
#include "tests/places.hpp"
#include "tests/plan/programs.hpp"

namespace peri::build {
namespace {

// Scores of places, those above a limit, the best of them, and what stands beside them.
constexpr const char* kDetector =
    "graph { input x: f32[n,24]; const w: f32[24,16] = seeded(0.4, 1); const limit: f32[] = [0.2]; "
    "const best: i64[1] = [3]; s = matmul(x, w); m = greater(s, limit); at = non_zero(m); "
    "rows = transpose(at) {perm=[1, 0]}; found = gather_nd(s, rows); y, place = top_k(found, best); "
    "twice = add(found, found); all = concat(found, twice) {axis=0}; output y; output place; output all }";

compile::Compiled planned() {
  compile::Options o;
  o.model = "detector";
  o.backend = "cuda";
  o.tune.target = device::read_target(std::string(tests::kSourceDir) + "/tests/whole/locks/h200.json").value();
  o.tune.measure = o.tune.verify = false;
  o.dims = {{"n", 9}};
  auto graph = ir::parse_graph(kDetector);
  EXPECT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  auto work = compile::Compilation::start(std::move(o), {std::move(*graph), {}, {}, {}});
  EXPECT_TRUE(work.ok()) << work.error().text();
  auto made = (*work)->lower();
  EXPECT_TRUE(made.ok()) << made.error().text();
  return std::move(made).value();
}

TEST(DataSizesOnGpu, WhatStaysOnTheHostRunsKernels) {
  const compile::Compiled made = planned();
  int64_t away = 0, sized = 0;
  for (const plan::Step& s : made.program.steps) {
    away += s.device != plan::kHost;
    sized += s.executor == "sized";
    EXPECT_NE(s.executor, "reference") << s.name;
  }
  EXPECT_GE(away, 2) << "the product and the comparison";
  EXPECT_GE(sized, 3);
}

TEST(DataSizesOnGpu, AnswersAreThoseOfTheDefinition) {
  compile::Compiled made = planned();
  for (std::string& device : made.program.devices)
    if (device == "cuda") device = "null";
  for (plan::Step& s : made.program.steps) {
    if (s.executor == "cuda") s.executor = "null";
    for (plan::Variant& v : s.variants) v.library = v.requires_isa = "";
  }
  runtime::WeightSource weights;
  weights.tensors = made.weights;
  const auto engine = runtime::Engine::create(made.program, std::move(weights), run_options(1));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok());
  auto graph = ir::parse_graph(kDetector);
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  for (const int64_t n : {9, 2, 30}) {
    Rng rng(static_cast<uint64_t>(n));
    Tensor x = Tensor::zeros(DType::kF32, {n, 24}).value();
    for (int64_t k = 0; k < x.numel(); ++k) x.set_f64(k, rng.uniform() - 0.4);
    const auto got = (*session)->run(std::span<const Tensor>(&x, 1));
    ASSERT_TRUE(got.ok()) << got.error().text();
    const std::vector<ops::RefTensor> in = {ops::to_ref(x)};
    const auto wanted = ops::run_reference(*graph, in, {0, 1, true});
    ASSERT_TRUE(wanted.ok());
    for (size_t k = 0; k < wanted->size(); ++k) {
      const Tensor t = ops::from_ref((*wanted)[k]);
      ASSERT_EQ((*got)[k].dims(), t.dims()) << k << " n=" << n;
      for (int64_t i = 0; i < t.numel(); ++i) EXPECT_NEAR((*got)[k].f64(i), t.f64(i), 1e-5) << k << " " << i;
    }
  }
}

// What is not zero decides how much a step of the device computes.
plan::Program of_found_places() {
  tests::ProgramMaker m;
  m.p.dims = {"k", "n"};
  m.p.devices = {"host", "null"};
  const int32_t x = m.input("x", DType::kF32, "[k,4]"), at = m.scratch("at", DType::kI64, "[2,n]");
  const int32_t there = m.scratch("there", DType::kI64, "[2,n]"), y = m.scratch("y", DType::kI64, "[2,n]");
  m.p.buffers[static_cast<size_t>(there)].device = m.p.buffers[static_cast<size_t>(y)].device = 1;
  m.reference({x}, {at}, "graph { input x: f32[k,4]; y = non_zero(x); output y }").binds = {"n"};
  m.step(std::string(plan::kCopyExecutor), {at}, {there}).device = 1;
  plan::Step& twice = m.reference({there}, {y}, "graph { input x: i64[2,n]; y = add(x, x); output y }");
  twice.executor = "null";
  twice.device = 1;
  m.output("y", y);
  return m.p;
}

TEST(DataSizesOnGpu, WhatTimesTheirStepsIsTold) {
  const auto engine = runtime::Engine::create(of_found_places(), {}, run_options(1));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto refused = measure_steps(*engine, {{"k", 3}}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("its sizes depend on data; peri bench --layers times every step"),
            std::string::npos)
      << refused.error().text();
  const auto session = runtime::Session::create(*engine);  // and that does
  ASSERT_TRUE(session.ok());
  const Tensor x = Tensor::of_f32({3, 4}, std::vector<float>(12, 1));
  std::vector<double> ms(3, -1);
  const auto runs = bench::time_steps(**session, std::span<const Tensor>(&x, 1), 0, &ms);
  ASSERT_TRUE(runs.ok()) << runs.error().text();
  for (const double one : ms) EXPECT_GT(one, 0);
}

}  // namespace
}  // namespace peri::build
