// Sessions: several threads on one engine, many shapes on one step, every kind of output, and what a caller does wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "exec/entry.hpp"
#include "runtime/engine.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using plan::BufferKind;
using tests::ProgramMaker;

Tensor f32(std::vector<int64_t> dims, std::vector<float> v) { return Tensor::of_f32(std::move(dims), v); }

std::atomic<int> instantiated{0};

// Adds 1, counting its instances; "slow" ones wait, so that concurrent first calls meet.
struct CountingInstance final : Instance {
  int64_t n;
  explicit CountingInstance(int64_t size) : n(size) {}
  Status run(const RunContext& c) const override {
    for (int64_t i = 0; i < n; ++i) static_cast<float*>(c.writes[0])[i] = static_cast<const float*>(c.reads[0])[i] + 1;
    return Ok{};
  }
};
struct CountingPrepared final : Prepared {
  Result<std::unique_ptr<Instance>> instantiate(const DimBinding& binding) override {
    ++instantiated;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int64_t n = binding.find("n")->second;
    if (n == 13) return refused("not thirteen");
    return std::unique_ptr<Instance>(std::make_unique<CountingInstance>(n));
  }
};
const Executor kCounting{"counting", 1, [](const PrepareContext&) -> Result<std::unique_ptr<Prepared>> {
                           return std::unique_ptr<Prepared>(std::make_unique<CountingPrepared>());
                         }};

Result<std::shared_ptr<const Engine>> engine_of(const plan::Program& p, WeightSource weights = {}) {
  static const std::vector<const Executor*> table = [] {
    auto all = exec::table();
    all.push_back(&kCounting);
    return all;
  }();
  return Engine::create(p, std::move(weights), {table, {{"avx2"}, {}}, 2});
}

ProgramMaker adding(int steps) {
  ProgramMaker m;
  m.p.dims = {"n"};
  int32_t at = m.input("x", DType::kF32, "[n]");
  for (int k = 0; k < steps; ++k) {
    const int32_t next = m.scratch("t" + std::to_string(k), DType::kF32, "[n]");
    m.step("counting", {at}, {next});
    at = next;
  }
  m.output("y", at);
  return m;
}

TEST(Session, ThreadsShareAnEngineAndItsInstances) {
  auto engine = engine_of(adding(1).p);
  ASSERT_TRUE(engine.ok());
  instantiated = 0;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto session = Session::create(*engine, 1);
      for (int64_t k = 0; k < 8; ++k) {
        const int64_t n = 1 + (k + t) % 4;
        auto out = (*session)->run(
            std::vector<Tensor>{f32({n}, std::vector<float>(static_cast<size_t>(n), static_cast<float>(t)))});
        if (!out.ok() || (*out)[0].f64(n - 1) != t + 1) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(instantiated, 4) << "one for each shape, however many threads ask for it";
}

TEST(Session, AnEvictedInstanceIsMadeAgain) {
  auto engine = engine_of(adding(1).p);
  auto session = Session::create(*engine, 1);
  auto run = [&](int64_t n) {
    ASSERT_EQ(
        (*session)->run(std::vector<Tensor>{f32({n}, std::vector<float>(static_cast<size_t>(n), 1))}).value()[0].f64(0),
        2);
  };
  instantiated = 0;
  for (int64_t n = 1; n <= 8; ++n) run(n);
  run(1);
  EXPECT_EQ(instantiated, 8);
  for (int64_t n = 16; n <= 24; ++n) run(n);  // all of the first eight go
  EXPECT_EQ(instantiated, 17);
  run(24);
  EXPECT_EQ(instantiated, 17);
  run(2);
  EXPECT_EQ(instantiated, 18);
}

// Fresh pages cost more than most steps: a large result lies where the last one lay, unless somebody still holds that.
TEST(Session, ALargeResultTakesTheMemoryOfTheLastOneThatNobodyHolds) {
  auto engine = engine_of(adding(1).p);
  auto session = Session::create(*engine, 1);
  constexpr int64_t kCount = 2 << 20;
  const auto run = [&](float v) {
    return (*session)->run(std::vector<Tensor>{f32({kCount}, std::vector<float>(kCount, v))}).value();
  };
  std::vector<Tensor> held = run(1);
  const void* last = nullptr;
  {
    const std::vector<Tensor> other = run(5);
    last = other[0].data();
    EXPECT_NE(last, held[0].data());
    EXPECT_EQ(other[0].f64(kCount - 1), 6);
  }
  EXPECT_EQ(held[0].f64(0), 2) << "what is held stays";
  EXPECT_EQ(held[0].f64(kCount - 1), 2);
  const std::vector<Tensor> third = run(7);
  EXPECT_EQ(third[0].data(), last) << "the memory of the one that was let go";
  EXPECT_EQ(third[0].f64(0), 8);
  EXPECT_EQ(held[0].f64(0), 2);
}

TEST(Session, AFailureIsReportedEachTimeAndHurtsNoOtherShape) {
  auto engine = engine_of(adding(1).p);
  auto session = Session::create(*engine, 1);
  const std::vector<Tensor> bad = {Tensor::zeros(DType::kF32, {13}).value()}, good = {f32({1}, {1})};
  for (int k = 0; k < 2; ++k) {
    auto out = (*session)->run(bad);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().kind, ErrorKind::kRefused);
    EXPECT_EQ(out.error().node, "counting0");
    EXPECT_TRUE((*session)->run(good).ok());
  }
}

// Fails a check while it is instantiated at 13, and while it runs at 14.
struct FaultyInstance final : Instance {
  int64_t n;
  explicit FaultyInstance(int64_t size) : n(size) {}
  Status run(const RunContext&) const override {
    PERI_CHECK(n != 14, "planted in a run");
    return Ok{};
  }
};
struct FaultyPrepared final : Prepared {
  Result<std::unique_ptr<Instance>> instantiate(const DimBinding& binding) override {
    const int64_t n = binding.find("n")->second;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    PERI_CHECK(n != 13, "planted in an instance");
    return std::unique_ptr<Instance>(std::make_unique<FaultyInstance>(n));
  }
};
const Executor kFaulty{"faulty", 1, [](const PrepareContext&) -> Result<std::unique_ptr<Prepared>> {
                         return std::unique_ptr<Prepared>(std::make_unique<FaultyPrepared>());
                       }};

TEST(Session, AFailedCheckNamesItsStepAndNobodyWaitsForIt) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), y = m.scratch("y", DType::kF32, "[n]");
  m.step("faulty", {x}, {y});
  m.output("y", y);
  static const std::vector<const Executor*> table = {&kFaulty};
  auto engine = Engine::create(m.p, {}, {table, {{"avx2"}, {}}, 2});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      auto session = Session::create(*engine, 2);
      for (const int64_t n : {13, 14, 3, 13, 14, 3}) {
        auto out = (*session)->run(std::vector<Tensor>{Tensor::zeros(DType::kF32, {n}).value()});
        const bool fails = n != 3;
        if (out.ok() == fails) continue;
        right += !fails || (out.error().kind == ErrorKind::kInternal && out.error().node == "faulty0" &&
                            out.error().message.find("planted") != std::string::npos);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 4 * 6);
}

TEST(Session, SeparateBuffersCanBeRead) {
  auto engine = engine_of(adding(6).p);
  auto session = Session::create(*engine, 1);
  const std::vector<Tensor> in = {f32({3}, {1, 2, 3})};
  ASSERT_TRUE((*session)->run(in).ok());
  const int64_t shared = (*session)->arena_bytes();
  (*session)->place(Session::Placement::kSeparate);
  ASSERT_TRUE((*session)->run(in).ok());
  EXPECT_GT((*session)->arena_bytes(), shared);
  for (int32_t k = 1; k <= 6; ++k) EXPECT_EQ((*session)->buffer_contents(k)->f64(2), 3 + k);
}

TEST(Session, OutputsOfEveryKind) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), w = m.weight("w", DType::kF32, {2});
  const int32_t y = m.buffer("y", BufferKind::kOutput, DType::kF32, "[n]");
  const int32_t view = m.scratch("view", DType::kF32, "[1,n]");
  m.p.buffers.back().alias_of = y;
  m.step("counting", {x}, {y});
  const std::pair<const char*, int32_t> outputs[] = {
      {"y", y}, {"again", y}, {"view", view}, {"input", x}, {"weight", w}};
  for (const auto& [name, b] : outputs) m.output(name, b);
  const Tensor weight = f32({2}, {8, 9});
  auto engine = engine_of(m.p, {weight.bytes(), nullptr, {}});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine, 1);
  const std::vector<Tensor> in = {f32({2}, {1, 2})};
  auto out = (*session)->run(in);
  ASSERT_TRUE(out.ok()) << out.error().text();
  for (int k : {0, 1, 2}) EXPECT_EQ((*out)[static_cast<size_t>(k)].f64(1), 3) << k;
  EXPECT_EQ((*out)[2].dims(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ((*out)[3].f64(1), 2);
  EXPECT_EQ((*out)[4].f64(1), 9);
  (*out)[0].set_f64(0, 50);
  EXPECT_EQ((*out)[1].f64(0), 2) << "outputs do not share memory";

  std::vector<float> mine(2), input_copy(2);
  const std::vector<View> given = {{DType::kF32, {2}, mine.data()}, {}, {}, {DType::kF32, {2}, input_copy.data()}};
  ASSERT_TRUE((*session)->run(in, given).ok());
  EXPECT_EQ(mine, (std::vector<float>{2, 3}));
  EXPECT_EQ(input_copy, (std::vector<float>{1, 2}));
  for (const View& bad : {View{DType::kF32, {3}, mine.data()}, View{DType::kI32, {2}, mine.data()}}) {
    auto refused_run = (*session)->run(in, std::vector<View>{bad});
    ASSERT_FALSE(refused_run.ok());
    EXPECT_EQ(refused_run.error().node, "y");
  }
}

TEST(Session, StringsGoThrough) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kString, "[n]"), at = m.input("at", DType::kI64, "[n]"),
                y = m.scratch("y", DType::kString, "[n]");
  m.reference({x, at}, {y}, "graph { input x: string[n]; input at: i64[n]; y = gather(x, at); output y }");
  m.output("y", y);
  m.output("x", x);
  auto engine = engine_of(m.p);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine, 1);
  for (int64_t n : {2, 3}) {
    std::vector<std::string> words = {"one", "two", "three"};
    words.resize(static_cast<size_t>(n));
    std::vector<int64_t> order = {1, 0, 2};
    order.resize(static_cast<size_t>(n));
    auto out = (*session)->run(std::vector<Tensor>{Tensor::strings({n}, words).value(), Tensor::of_i64({n}, order)});
    ASSERT_TRUE(out.ok()) << out.error().text();
    EXPECT_EQ((*out)[0].string_values()[0], "two");
    EXPECT_EQ((*out)[1].string_values(), words);
  }
}

TEST(Session, WrongInputsAreNamed) {
  auto engine = engine_of(adding(1).p);
  auto session = Session::create(*engine, 1);
  struct Case {
    std::vector<Tensor> inputs;
    const char* says;
  };
  for (const Case& c : {Case{{}, "0 inputs"}, Case{{Tensor::zeros(DType::kF64, {2}).value()}, "element type"},
                        Case{{Tensor::zeros(DType::kF32, {2, 2}).value()}, "rank"},
                        Case{{Tensor::zeros(DType::kF32, {0}).value()}, "at least 1"}}) {
    auto out = (*session)->run(c.inputs);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().kind, ErrorKind::kUsage);
    EXPECT_NE(out.error().text().find(c.says), std::string::npos) << out.error().text();
  }
}

TEST(Session, AStateLivesAcrossRuns) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), state = m.buffer("state", BufferKind::kState, DType::kF32, "[n]");
  m.reference({state, x}, {state}, "graph { input s: f32[n]; input x: f32[n]; y = add(s, x); output y }").shares = {0};
  m.output("sum", state);
  auto engine = engine_of(m.p);
  ASSERT_TRUE(engine.ok());
  auto session = Session::create(*engine, 1);
  for (int k = 1; k <= 3; ++k)
    EXPECT_EQ((*session)->run(std::vector<Tensor>{f32({2}, {1, 2})}).value()[0].f64(1), 2 * k);
  EXPECT_EQ((*session)->run(std::vector<Tensor>{f32({1}, {5})}).value()[0].f64(0), 5) << "a smaller size begins anew";
}

// A size that no argument has, only the region itself.
TEST(Session, AStepThatComputesWithASizeIsMadeForThatSize) {
  ProgramMaker m;
  m.p.dims = {"n", "seq"};
  const int32_t x = m.input("x", DType::kI64, "[n]"), y = m.scratch("y", DType::kI64, "[n]");
  m.input("ids", DType::kI64, "[seq]");
  m.reference({x}, {y}, "graph { input x: i64[n]; s = dims_constant() {value=dims[seq]}; y = mul(x, s); output y }");
  m.output("y", y);
  {
    auto silent = engine_of(m.p);
    ASSERT_TRUE(silent.ok());
    auto out = Session::create(*silent, 1)
                   .value()
                   ->run(std::vector<Tensor>{Tensor::of_i64({1}, std::vector<int64_t>{3}),
                                             Tensor::zeros(DType::kI64, {2}).value()});
    ASSERT_FALSE(out.ok()) << "a step is told no size that it does not state";
    EXPECT_NE(out.error().text().find("'seq' is not bound"), std::string::npos) << out.error().text();
  }
  m.p.steps[0].depends_on = {"seq"};
  auto engine = engine_of(m.p);
  ASSERT_TRUE(engine.ok());
  auto session = Session::create(*engine, 1);
  for (int64_t seq : {2, 5}) {
    auto out = (*session)->run(
        std::vector<Tensor>{Tensor::of_i64({1}, std::vector<int64_t>{3}), Tensor::zeros(DType::kI64, {seq}).value()});
    ASSERT_TRUE(out.ok()) << out.error().text();
    EXPECT_EQ((*out)[0].f64(0), static_cast<double>(3 * seq));
  }
}

TEST(Engine, WhatWasCheckedAsItWasReadIsNotCheckedAgain) {
  ProgramMaker m = adding(2);
  m.p.inputs.push_back(m.p.inputs[0]);  // which a check refuses, and which hurts nothing until a run
  const auto refused = engine_of(m.p);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  WeightSource weights;
  weights.checked = true;
  const auto engine = engine_of(m.p, std::move(weights));
  EXPECT_TRUE(engine.ok()) << engine.error().text();
}

TEST(Engine, NamesAllMissingExecutors) {
  ProgramMaker m = adding(2);
  m.p.steps[0].executor = "cubin";
  m.p.steps[1].executor = "cudnn";
  auto engine = engine_of(m.p);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::kRefused);
  EXPECT_NE(engine.error().text().find("'cubin', 'cudnn'"), std::string::npos) << engine.error().text();
}

}  // namespace
}  // namespace peri::runtime
