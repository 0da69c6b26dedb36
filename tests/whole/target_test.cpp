// A plan for a recorded machine: offers, engine and lock need what that machine has and no more, and such an engine
// runs with just that here.
#include "device/target.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "backends/cpu/backend.hpp"
#include "compile/compile.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"
#include "tests/places.hpp"

namespace peri {
namespace {

device::Target recorded(const std::string& isas) {
  auto t = device::parse_target(R"({"kind":"cpu","chip":"recorded","isas":[)" + isas +
                                R"(],"threads":4,"caches":{"L3 unified":8388608},"libraries":[]})");
  EXPECT_TRUE(t.ok()) << t.error().text();
  return std::move(t).value();
}

compile::Options options_for(const std::string& isas) {
  compile::Options o;
  o.model = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";
  o.tune.threads = 2;
  o.tune.measure = o.tune.verify = false;
  o.tune.provider = "peri";
  o.tune.target = recorded(isas);
  o.builder = "peri test";
  return o;
}

std::set<std::string> needed(const compile::Compiled& made) {
  std::set<std::string> out;
  for (const plan::Step& s : made.program.steps)
    for (const plan::Variant& v : s.variants) out.insert(v.requires_isa);
  out.erase("");
  return out;
}

TEST(RecordedTarget, EngineAndLockNeedWhatItHas) {
  for (const auto& [isas, want] : {std::pair{R"("avx2")", "avx2"}, std::pair{R"("avx2","avx512")", "avx512"}}) {
    const auto made = compile::compile(options_for(isas));
    ASSERT_TRUE(made.ok()) << made.error().text();
    EXPECT_EQ(needed(*made), std::set<std::string>{want});
    EXPECT_EQ(plan::isas_of(made->lock), std::vector<std::string>{want});
    // The lock gives the same program for that target again.
    compile::Options again = options_for(isas);
    again.lock = made->lock;
    const auto locked = compile::compile(again);
    ASSERT_TRUE(locked.ok()) << locked.error().text();
    EXPECT_EQ(needed(*locked), std::set<std::string>{want});
    EXPECT_EQ(plan::lock_text(locked->lock), plan::lock_text(made->lock));
  }
}

TEST(RecordedTarget, ALockThatNeedsMoreIsRefusedByName) {
  const auto wide = compile::compile(options_for(R"("avx2","avx512")"));
  ASSERT_TRUE(wide.ok()) << wide.error().text();
  compile::Options narrow = options_for(R"("avx2")");
  narrow.lock = wide->lock;
  const auto made = compile::compile(narrow);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kRefused);
  EXPECT_NE(made.error().text().find("avx512"), std::string::npos) << made.error().text();
}

TEST(RecordedTarget, WithoutAvx2TheReferenceRuns) {
  const auto made = compile::compile(options_for(""));
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_TRUE(needed(*made).empty());
}

TEST(RecordedTarget, IsNotMeasuredHere) {
  compile::Options o = options_for(R"("avx2")");
  o.tune.measure = true;
  const auto made = compile::compile(o);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kUsage);
}

// elementwise, which notes what its instances are made for.
std::vector<std::string>& seen() {
  static std::vector<std::string> isas;
  return isas;
}
Result<std::unique_ptr<kernels::Instance>> noted(const kernels::Problem& p, std::string_view config,
                                                 const kernels::InstantiateContext& c) {
  seen() = c.target->isas;
  return kernels::find("elementwise")->instantiate(p, config, c);
}

// relu as an engine planned for `target`, for a runtime that takes this machine to have `has`; `change` is done to its
// program before.
Result<std::shared_ptr<const runtime::Engine>> relu_engine(const device::Target& target, const std::string& provider,
                                                           const std::vector<std::string>& has,
                                                           const std::function<void(plan::Program*)>& change = {}) {
  auto graph = ir::parse_graph("graph { input x: f32[4,8]; y = relu(x); output y }");
  EXPECT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  tune::Options tune;
  tune.measure = tune.verify = false;
  tune.provider = provider;
  tune.target = target;
  tune::Tuner tuner(tune);
  PERI_ASSIGN(auto made, lower::lower_graph(*graph, backends::cpu::backend(), tuner, {{}, {}, nullptr, {}}));
  if (change) change(&made.program);
  PERI_ASSIGN(auto whole, plan::assemble_engine(made.program, made.weights));
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  runtime::EngineOptions options;
  options.executors = kTable;
  options.machine = {has, exec::libraries()};
  return runtime::Engine::create(std::move(whole.program), {whole.weight_bytes, whole.keep, {}}, options);
}
Result<std::vector<Tensor>> run_relu(const std::shared_ptr<const runtime::Engine>& engine) {
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  return session->run(std::vector<Tensor>{*Tensor::zeros(DType::kF32, {4, 8})});
}

TEST(RecordedTarget, ItsEngineRunsHereWithItsInstructionSetOnly) {
  if (!device::this_cpu().has("avx2")) GTEST_SKIP() << "not run here: avx2";
  kernels::Kernel planted = *kernels::find("elementwise");
  planted.name = "planted";
  planted.provider = "planted";
  planted.instantiate = noted;
  const kernels::AddedKernel added(planted);
  for (const std::string& isa : {std::string("avx2"), device::this_cpu().isas.back()}) {
    seen().clear();
    const auto engine = relu_engine(device::this_cpu().limited_to(isa), "planted", device::this_cpu().isas);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    const auto got = run_relu(*engine);
    ASSERT_TRUE(got.ok()) << got.error().text();
    ASSERT_FALSE(seen().empty());
    EXPECT_EQ(seen().back(), isa == "avx2" ? "avx2" : "avx512") << "no kernel asks for more";
  }
}

TEST(RecordedTarget, AStepThatNeedsMoreThanThisMachineHasIsRefused) {
  const auto engine = relu_engine(device::this_cpu(), "peri", {"avx1024"}, [](plan::Program* program) {
    for (plan::Step& s : program->steps)
      for (plan::Variant& v : s.variants) v.requires_isa = "avx1024";
  });
  const auto got = engine.ok() ? run_relu(*engine) : Result<std::vector<Tensor>>(engine.error());
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().kind, ErrorKind::kRefused);
  EXPECT_NE(got.error().text().find("avx1024"), std::string::npos) << got.error().text();
}

}  // namespace
}  // namespace peri
