// A plan for a recorded machine: offers, engine and lock need what that machine has and no more, and such an engine
// runs with just that here.
#include "device/target.hpp"

#include <gtest/gtest.h>

#include <set>

#include "backends/cpu/lower.hpp"
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

TEST(RecordedTarget, ItsEngineRunsHereWithItsInstructionSetOnly) {
  if (!device::this_cpu().has("avx2")) GTEST_SKIP() << "not run here: avx2";
  kernels::Kernel planted = *kernels::find("elementwise");
  planted.name = "planted";
  planted.provider = "planted";
  planted.instantiate = noted;
  const kernels::AddedKernel added(planted);
  auto graph = ir::parse_graph("graph { input x: f32[4,8]; y = relu(x); output y }");
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  const auto table = exec::table();
  for (const std::string& isa : {std::string("avx2"), device::this_cpu().isas.back()}) {
    tune::Options tune;
    tune.measure = tune.verify = false;
    tune.provider = "planted";
    tune.target = device::this_cpu().limited_to(isa);
    tune::Tuner tuner(tune);
    const auto made = backends::cpu::lower(*graph, tuner, {{}, {}, nullptr, {}});
    ASSERT_TRUE(made.ok()) << made.error().text();
    auto whole = plan::assemble_engine(made->program, made->weights);
    ASSERT_TRUE(whole.ok());
    runtime::EngineOptions options;
    options.executors = table;
    options.machine = {device::this_cpu().isas, exec::libraries()};
    auto engine = runtime::Engine::create(std::move(whole->program), {whole->weight_bytes, whole->keep, {}}, options);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    const auto session = runtime::Session::create(*engine);
    ASSERT_TRUE(session.ok());
    seen().clear();
    const auto got = (*session)->run(std::vector<Tensor>{*Tensor::zeros(DType::kF32, {4, 8})});
    ASSERT_TRUE(got.ok()) << got.error().text();
    ASSERT_FALSE(seen().empty());
    const std::string want = isa == "avx512_bf16" ? "avx512" : isa;  // no kernel asks for more
    EXPECT_EQ(seen().back(), want);
  }
}

}  // namespace
}  // namespace peri
