// A weight that many steps use in the same way is packed once in an engine, whatever its steps, bodies and sizes; one
// that they use in another way is packed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/entry.hpp"
#include "kernels/weights/packed.hpp"
#include "runtime/engine.hpp"
#include "tests/exec/engines.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using peri::tests::ProgramMaker;
using plan::BufferKind;
using tests::engine_of;
using tests::ones;

constexpr int64_t kWidth = 1024;
std::atomic<int64_t> packed_bytes{0};
std::atomic<int> fails{0};  // of the next packings
std::mutex places_mutex;
std::set<const float*> places;  // of packed weights in instances

// y[n,kWidth] = x + w * the number in its configuration, which is packed.
Result<std::unique_ptr<kernels::Instance>> scaled(const kernels::Problem& p, std::string_view config,
                                                  const kernels::InstantiateContext& c) {
  const float scale = config.empty() ? 1.0f : static_cast<float>(config.back() - '0');
  if (!*c.packed && fails > 0 && fails-- > 0) return invalid("fails");
  PERI_TRY(kernels::pack_once(c, "", kWidth, [&](float* to) {
    packed_bytes += kWidth * static_cast<int64_t>(sizeof(float));
    for (int64_t k = 0; k < kWidth; ++k) to[k] = scale * static_cast<const float*>(c.constants[1].data())[k];
  }));
  {
    const std::lock_guard<std::mutex> lock(places_mutex);
    places.insert(kernels::packed_floats(*c.packed));
  }
  return kernels::TaskInstance::make(
      kernels::dims_of(*p.graph->outputs[0])[0], 0, [packed = *c.packed](int64_t row, const kernels::Args& args) {
        for (int64_t k = 0; k < kWidth; ++k)
          static_cast<float*>(args.out[0])[row * kWidth + k] =
              static_cast<const float*>(args.in[0])[row * kWidth + k] + kernels::packed_floats(packed)[k];
      });
}
const kernels::Kernel kScaled{.name = "scaled", .provider = "test", .takes = "", .instantiate = scaled};

std::string payload(const std::string& config = "") {
  return "kernel scaled@1 {" + config +
         "}\ngraph { input x0: f32[n,1024]; input x1: f32[1024]; v2: f32[n,1024] = add(x0, x1); output v2 }";
}

Tensor weight_of(float value) {
  return Tensor::of_f32({kWidth}, std::vector<float>(static_cast<size_t>(kWidth), value));
}

// x[n,kWidth] through `steps` steps, of which step k uses weight k % weights and configuration k % configs.
ProgramMaker unrolled(int steps, int weights = 1, const std::vector<std::string>& configs = {""}) {
  ProgramMaker m;
  m.p.dims = {"n"};
  int32_t at = m.input("x", DType::kF32, "[n,1024]");
  std::vector<int32_t> w;
  for (int k = 0; k < weights; ++k) w.push_back(m.weight("w", DType::kF32, {kWidth}));
  for (size_t k = 0; k < static_cast<size_t>(steps); ++k) {
    const int32_t next = m.scratch("t", DType::kF32, "[n,1024]");
    m.step("cpu", {at, w[k % w.size()]}, {next}, payload(configs[k % configs.size()]));
    at = next;
  }
  m.output("y", at);
  return m;
}

Result<std::shared_ptr<const Engine>> engine_with(const plan::Program& p, std::vector<Tensor> weights) {
  WeightSource source;
  source.tensors = std::move(weights);
  return engine_of(p, nullptr, std::move(source));
}

void run_at(const std::shared_ptr<const Engine>& engine, int64_t n, double want) {
  const auto out = Session::create(engine, 2).value()->run(std::vector<Tensor>{ones({n, kWidth})});
  ASSERT_TRUE(out.ok()) << out.error().text();
  for (const int64_t k : {int64_t{0}, n * kWidth - 1}) ASSERT_EQ((*out)[0].f64(k), want);
}

class SharedWeights : public testing::Test {
 protected:
  void SetUp() override { packed_bytes = fails = 0; }
  int64_t packed() const { return packed_bytes / (kWidth * static_cast<int64_t>(sizeof(float))); }
  const kernels::AddedKernel added_{kScaled};
};

TEST_F(SharedWeights, TwentyStepsPackTheirWeightOnce) {
  const auto engine = engine_with(unrolled(20).p, {weight_of(2)});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  std::vector<std::thread> threads;
  for (const int64_t n : {1, 2, 3, 4}) threads.emplace_back([&, n] { run_at(*engine, n, 41); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(packed_bytes, kWidth * static_cast<int64_t>(sizeof(float)));
}

TEST_F(SharedWeights, OtherWeightsAndConfigurationsArePackedApart) {
  const auto engine = engine_with(unrolled(12, 2, {"scale=1", "scale=3", "scale=5"}).p, {weight_of(1), weight_of(10)});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  run_at(*engine, 3, 1 + 2 * (1 + 3 + 5) * 11);
  EXPECT_EQ(packed(), 6);
  const auto other = engine_with(unrolled(12, 2, {"scale=1"}).p, {weight_of(1), weight_of(10)});
  ASSERT_TRUE(other.ok()) << other.error().text();
  run_at(*other, 3, 1 + 6 * 11);
  EXPECT_EQ(packed(), 8) << "another engine has its own";
}

TEST_F(SharedWeights, AStepThatCannotPackLeavesItToTheNext) {
  const auto engine = engine_with(unrolled(3).p, {weight_of(1)});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  fails = 2;  // at the size it is tuned for, and at its own
  EXPECT_FALSE(Session::create(*engine, 1).value()->run(std::vector<Tensor>{ones({1, kWidth})}).ok());
  run_at(*engine, 1, 4);
  EXPECT_EQ(packed(), 1);
}

// What is packed from one weight beside different others is kept in memory once.
TEST_F(SharedWeights, TheSamePackedBytesAreKeptOnce) {
  ProgramMaker m = unrolled(1, 2);
  m.p.outputs.clear();
  m.p.steps.clear();
  int32_t at = m.p.inputs[0].buffer;
  for (int k = 0; k < 20; ++k) {
    const int32_t next = m.scratch("t", DType::kF32, "[n,1024]"), other = m.weight("o", DType::kF32, {1});
    m.step(
        "cpu", {at, 1, other}, {next},
        "kernel scaled@1 {}\ngraph { input x0: f32[n,1024]; input x1: f32[1024]; input x2: f32[1]; v3: f32[n,1024] = "
        "add(x0, x1); output v3 }");
    at = next;
  }
  m.output("y", at);
  std::vector<Tensor> weights = {weight_of(2), weight_of(2)};
  for (int k = 0; k < 20; ++k) weights.push_back(ones({1}));
  const auto engine = engine_with(m.p, weights);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  places.clear();
  run_at(*engine, 3, 41);
  EXPECT_EQ(packed(), 20);
  EXPECT_EQ(places.size(), 1u);
}

// Steps that have no more in common than a small weight: what each packs of its own is neither hashed nor compared.
TEST_F(SharedWeights, AWeightMuchSmallerThanWhatIsPackedCausesNoComparison) {
  ProgramMaker m = unrolled(1, 2);
  m.p.outputs.clear();
  m.p.steps.clear();
  const int32_t small = m.weight("small", DType::kF32, {1});
  int32_t at = m.p.inputs[0].buffer;
  for (const int32_t own : {1, 2}) {
    const int32_t next = m.scratch("t", DType::kF32, "[n,1024]");
    m.step(
        "cpu", {at, own, small}, {next},
        "kernel scaled@1 {}\ngraph { input x0: f32[n,1024]; input x1: f32[1024]; input x2: f32[1]; v3: f32[n,1024] = "
        "add(x0, x1); output v3 }");
    at = next;
  }
  m.output("y", at);
  const auto engine = engine_with(m.p, {weight_of(2), weight_of(2), ones({1})});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  places.clear();
  run_at(*engine, 3, 5);
  EXPECT_EQ(packed(), 2);
  EXPECT_EQ(places.size(), 2u);
}

// The bodies of two loops and a step outside use one weight.
TEST_F(SharedWeights, BodiesShareWithTheWhole) {
  ProgramMaker m = unrolled(1);
  m.p.outputs.clear();
  const int32_t first = static_cast<int32_t>(m.p.buffers.size()) - 1;
  const int32_t trips = m.input("trips", DType::kI64, "[]");
  ProgramMaker body;
  body.p.dims = {"n"};
  body.input("i", DType::kI64, "[]");
  const int32_t go = body.input("go", DType::kBool, "[]"), v = body.input("v", DType::kF32, "[n,1024]");
  const int32_t w = body.buffer("w", BufferKind::kWeight, DType::kF32, "[1024]");
  body.p.buffers.back().weight = 0;
  const int32_t next = body.scratch("next", DType::kF32, "[n,1024]");
  body.step("cpu", {v, w}, {next}, payload());
  body.output("go", go);
  body.output("v", next);
  int32_t at = first;
  for (int k = 0; k < 2; ++k) {
    const int32_t y = m.scratch("y", DType::kF32, "[n,1024]");
    m.step("loop", {trips, -1, at}, {y}, "carried=1").bodies.push_back(std::make_shared<plan::Program>(body.p));
    at = y;
  }
  m.output("y", at);
  const auto engine = engine_with(m.p, {weight_of(3)});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto out = Session::create(*engine, 1)
                       .value()
                       ->run(std::vector<Tensor>{ones({2, kWidth}), Tensor::of_i64({}, std::vector<int64_t>{4})});
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ((*out)[0].f64(5), 1 + 3 * 9);
  EXPECT_EQ(packed(), 1);
}

}  // namespace
}  // namespace peri::runtime
