// Many shapes on one engine: going back to a kept one plans, allocates and makes nothing, first calls meet instead of
// waiting for each other, weights are packed once, guards follow the shape.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/entry.hpp"
#include "kernels/weights/packed.hpp"
#include "runtime/session_state.hpp"
#include "tests/exec/engines.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using peri::tests::ProgramMaker;
using plan::BufferKind;
using tests::Counted;
using tests::ones;

// Two that come with different names go on together; one that waits in vain says so.
class Meeting {
 public:
  bool meet(int64_t name) {
    std::unique_lock<std::mutex> lock(mutex_);
    (name == 2 ? second_ : first_) = true;
    came_.notify_all();
    return came_.wait_for(lock, std::chrono::seconds(120), [&] { return first_ && second_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool first_ = false, second_ = false;
};
std::unique_ptr<Meeting> meeting;  // null: nobody meets
std::atomic<int> missed{0};

// y = x + 1; the instance for 5 writes one element beyond its result.
struct AddInstance final : Instance {
  int64_t n;
  explicit AddInstance(int64_t size) : n(size) {}
  Scratch scratch() const override { return {0, 64}; }
  Status run(const RunContext& c) const override {
    for (int64_t i = 0; i < n + (n == 5); ++i)
      static_cast<float*>(c.writes[0])[i] = i < n ? static_cast<const float*>(c.reads[0])[i] + 1 : 0;
    return Ok{};
  }
};
struct AddPrepared final : Prepared {
  Result<std::unique_ptr<Instance>> instantiate(const DimBinding& binding) override {
    const int64_t n = binding.find("n")->second;
    if (meeting && n <= 2 && !meeting->meet(n)) ++missed;
    return std::unique_ptr<Instance>(std::make_unique<AddInstance>(n));
  }
};
const Executor kAdd{"add", 1, [](const PrepareContext&) -> Result<std::unique_ptr<Prepared>> {
                      return std::unique_ptr<Prepared>(std::make_unique<AddPrepared>());
                    }};

Result<std::shared_ptr<const Engine>> make_engine(const plan::Program& p, Counted* counted = nullptr,
                                                  WeightSource weights = {}) {
  static const std::vector<const Executor*> kTable = [] {
    auto all = exec::table();
    all.push_back(&kAdd);
    return all;
  }();
  return tests::engine_of(p, counted, std::move(weights), kTable);
}

plan::Program adding(int steps) {
  ProgramMaker m;
  m.p.dims = {"n"};
  int32_t at = m.input("x", DType::kF32, "[n]");
  for (int k = 0; k < steps; ++k) {
    const bool last = k + 1 == steps;
    const int32_t next = m.buffer("t", last ? BufferKind::kOutput : BufferKind::kScratch, DType::kF32, "[n]");
    m.step("add", {at}, {next});
    at = next;
  }
  m.output("y", at);
  return m.p;
}

// Runs into the test's own memory, so that the session allocates nothing for results.
void run_at(Session* session, int64_t n, int steps) {
  std::vector<float> y(static_cast<size_t>(n));
  const std::vector<View> into = {{DType::kF32, {n}, y.data()}};
  const auto out = session->run(std::vector<Tensor>{ones({n})}, into);
  ASSERT_TRUE(out.ok()) << out.error().text();
  for (const float v : y) ASSERT_EQ(v, static_cast<float>(1 + steps)) << n;
}

TEST(KeptShapes, GoingBackPlansAllocatesAndMakesNothing) {
  Counted counted;
  {
    const auto engine = make_engine(adding(4), &counted);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine, 2).value();
    const std::vector<int64_t> sizes = {3, 40000, 70, 1200, 100000, 7, 9000, 11};
    ASSERT_EQ(sizes.size(), Session::kKeptShapes);
    for (const int64_t n : sizes) run_at(session.get(), n, 4);
    const int64_t allocations = counted.allocations, live = counted.live, made = (*engine)->instances_made();
    EXPECT_EQ(made, 4 * 8);
    EXPECT_EQ(session->shapes_bound(), 8);
    constexpr uint64_t kSeed = 3;
    Rng rng(kSeed);
    for (int turn = 0; turn < 200; ++turn) {
      const int64_t n = sizes[static_cast<size_t>(rng.below(8))];
      if (rng.below(2)) ASSERT_TRUE(session->prepare({{n}}).ok());
      run_at(session.get(), n, 4);
    }
    EXPECT_EQ(counted.allocations, allocations);
    EXPECT_EQ(counted.live, live);
    EXPECT_EQ(session->shapes_bound(), 8);
    EXPECT_EQ((*engine)->instances_made(), made);
    // Shared by all: no more than twice what the largest needs, which has two buffers alive at once.
    EXPECT_LT(live, 2 * 2 * 100000 * 4);

    for (const int64_t n : sizes) run_at(session.get(), n, 4);
    run_at(session.get(), 12, 4);  // a ninth: the one used longest ago goes
    EXPECT_EQ(session->shapes_bound(), 9);
    run_at(session.get(), sizes[1], 4);
    EXPECT_EQ(session->shapes_bound(), 9);
    run_at(session.get(), sizes[0], 4);
    EXPECT_EQ(session->shapes_bound(), 10);
  }
  EXPECT_EQ(counted.live, 0);
}

TEST(KeptShapes, ScratchFollowsThePool) {
  const auto engine = make_engine(adding(2));
  auto session = Session::create_body(*engine).value();
  for (const int threads : {1, 8, 2, 8}) {
    ThreadPool pool(threads);
    session->use_pool(&pool);
    for (const int64_t n : {3, 4}) run_at(session.get(), n, 2);
  }
  EXPECT_EQ(session->shapes_bound(), 2);
}

TEST(KeptShapes, GuardsAreThoseOfTheShape) {
  const auto engine = make_engine(adding(3));
  auto session = Session::create(*engine, 1).value();
  run_at(session.get(), 3, 3);
  session->place(Session::Placement::kSeparate);
  for (int turn = 0; turn < 3; ++turn) {
    for (const int64_t n : {3, 1000, 4}) run_at(session.get(), n, 3);
    const auto out = session->run(std::vector<Tensor>{ones({5})});
    ASSERT_FALSE(out.ok()) << "turn " << turn;
    EXPECT_NE(out.error().message.find("past the end of its result 0"), std::string::npos) << out.error().text();
  }
  session->place(Session::Placement::kPlanned);
  const int64_t bound = session->shapes_bound();
  run_at(session.get(), 3, 3);
  EXPECT_EQ(session->shapes_bound(), bound) << "the shape as planned is still kept";
}

TEST(KeptShapes, AStepIsRepeatedOnWhatItsRunLeft) {
  const auto engine = make_engine(adding(3));
  auto session = Session::create(*engine, 1).value();
  for (const auto how : {Session::Placement::kSeparate, Session::Placement::kGuarded}) {
    session->place(how);
    run_at(session.get(), 4, 3);
    const int32_t read = (*engine)->program().steps[1].reads[0], written = (*engine)->program().steps[1].writes[0];
    const auto from = session->memory_of(read), to = session->memory_of(written);
    ASSERT_TRUE(from.ok() && to.ok());
    ASSERT_EQ(to->size(), 4 * sizeof(float));
    reinterpret_cast<float*>(from->data())[2] = 40;
    ASSERT_TRUE(session->repeat(1).ok());
    EXPECT_EQ(reinterpret_cast<float*>(to->data())[2], 41);
    EXPECT_EQ(reinterpret_cast<float*>(to->data())[3], 3) << "1 and two steps";
    EXPECT_FALSE(session->run(std::vector<Tensor>{ones({5})}).ok()) << "a write past the end is seen in both";
  }
}

TEST(KeptShapes, FirstCallsOfDifferentShapesMeet) {
  meeting = std::make_unique<Meeting>();
  missed = 0;
  const auto engine = make_engine(adding(1));
  std::vector<std::thread> threads;
  for (const int64_t n : {1, 2})
    threads.emplace_back([&, n] { run_at(Session::create(*engine, 1).value().get(), n, 1); });
  for (std::thread& t : threads) t.join();
  meeting.reset();
  EXPECT_EQ(missed, 0) << "one waited until the other was made";
  EXPECT_EQ((*engine)->instances_made(), 2);
}

std::atomic<int> packs{0};
std::atomic<int64_t> packed_at{0};  // the size at hand

// y[n,4] = x + w, w packed; sizes 1 and 2 meet while they are made.
Result<std::unique_ptr<kernels::Instance>> planted(const kernels::Problem& p, std::string_view,
                                                   const kernels::InstantiateContext& c) {
  const std::vector<int64_t> dims = kernels::dims_of(*p.graph->outputs[0]);
  PERI_TRY(kernels::pack_once(c, "", 4, [&](float* to) {
    ++packs;
    packed_at = dims[0];
    std::memcpy(to, c.constants[1].data(), 16);
  }));
  if (meeting && dims[0] <= 2 && !meeting->meet(dims[0])) ++missed;
  return kernels::TaskInstance::make(dims[0], 0, [packed = *c.packed](int64_t row, const kernels::Args& args) {
    for (int64_t k = 0; k < 4; ++k)
      static_cast<float*>(args.out[0])[row * 4 + k] =
          static_cast<const float*>(args.in[0])[row * 4 + k] + kernels::packed_floats(packed)[k];
  });
}

ProgramMaker planted_program() {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), w = m.weight("w", DType::kF32, {4});
  const int32_t y = m.scratch("y", DType::kF32, "[n,4]");
  m.step("cpu", {x, w}, {y},
         "kernel planted@1 {}\ngraph { input x: f32[n,4]; input w: f32[4]; y: f32[n,4] = add(x, w); output y }");
  m.output("y", y);
  return m;
}

TEST(KeptShapes, WeightsArePackedOnceAndLaterInstancesMeet) {
  static const kernels::Kernel kPlanted{.name = "planted", .provider = "test", .takes = "", .instantiate = planted};
  const kernels::AddedKernel added(kPlanted);
  const Tensor weight = Tensor::of_f32({4}, std::vector<float>{1, 2, 3, 4});
  const auto engine = make_engine(planted_program().p, nullptr, {weight.bytes(), nullptr, {}});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  packs = 0;
  const auto run = [&](int64_t n) {
    const auto out = Session::create(*engine, 1).value()->run(std::vector<Tensor>{ones({n, 4})});
    ASSERT_TRUE(out.ok()) << out.error().text();
    for (int64_t k = 0; k < 4 * n; ++k) ASSERT_EQ((*out)[0].f64(k), static_cast<double>(2 + k % 4));
  };
  std::vector<std::thread> threads;
  for (const int64_t n : {11, 12, 13, 14}) threads.emplace_back([&, n] { run(n); });
  for (std::thread& t : threads) t.join();
  threads.clear();
  meeting = std::make_unique<Meeting>();
  missed = 0;
  for (const int64_t n : {1, 2}) threads.emplace_back([&, n] { run(n); });
  for (std::thread& t : threads) t.join();
  meeting.reset();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(packs, 1);
}

// Which form the weights take hangs on the engine, not on the size that comes first; a lie about it is passed over.
TEST(KeptShapes, WeightsArePackedForTheTunedSize) {
  static const kernels::Kernel kPlanted{.name = "planted", .provider = "test", .takes = "", .instantiate = planted};
  const kernels::AddedKernel added(kPlanted);
  const Tensor weight = Tensor::of_f32({4}, std::vector<float>{1, 2, 3, 4});
  for (const int64_t tuned : {int64_t{77}, int64_t{1} << 50, int64_t{0}, int64_t{-5}}) {
    plan::Program p = planted_program().p;
    p.tuned_for = {{"n", tuned}};
    const auto engine = make_engine(p, nullptr, {weight.bytes(), nullptr, {}});
    packs = 0;
    for (const int64_t n : {5, 3, 5}) {
      const auto out = Session::create(*engine, 1).value()->run(std::vector<Tensor>{ones({n, 4})});
      ASSERT_TRUE(out.ok()) << out.error().text();
    }
    EXPECT_EQ(packs, 1);
    EXPECT_EQ(packed_at, tuned == 77 ? 77 : 5);
  }
}

// Takes no 5 rows, and fails at 6.
Result<std::unique_ptr<kernels::Instance>> choosy(const kernels::Problem& p, std::string_view config,
                                                  const kernels::InstantiateContext& c) {
  const int64_t rows = kernels::dims_of(*p.graph->outputs[0])[0];
  if (rows == 5) return refused("takes no 5 rows");
  if (rows == 6) return invalid("fails");
  return planted(p, config, c);
}

// At a size that it refuses another kernel runs; a fault stays a fault.
TEST(KeptShapes, ASizeThatItsKernelRefusesRunsByAnother) {
  static const kernels::Kernel kPlanted{.name = "planted", .provider = "test", .takes = "", .instantiate = choosy};
  const kernels::AddedKernel added(kPlanted);
  const Tensor weight = Tensor::of_f32({4}, std::vector<float>{1, 2, 3, 4});
  const auto engine = make_engine(planted_program().p, nullptr, {weight.bytes(), nullptr, {}});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  for (const int64_t n : {4, 5, 7}) {
    const auto out = Session::create(*engine, 1).value()->run(std::vector<Tensor>{ones({n, 4})});
    ASSERT_TRUE(out.ok()) << out.error().text();
    for (int64_t k = 0; k < 4 * n; ++k) ASSERT_EQ((*out)[0].f64(k), static_cast<double>(2 + k % 4)) << n;
  }
  const auto out = Session::create(*engine, 1).value()->run(std::vector<Tensor>{ones({6, 4})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message, "fails");
}

// Weights that are overwritten once they are packed are not seen again, whatever the size.
TEST(KeptShapes, AProductPacksForAllSizes) {
  constexpr int64_t kDepth = 384, kWidth = 1536;
  for (const char* name : {"gemm_f32", "onednn_matmul"}) {
    const kernels::Kernel* kernel = kernels::find(name);
    Tensor w = Tensor::zeros(DType::kF32, {kDepth, kWidth}).value();
    for (int64_t k = 0; k < w.numel(); ++k) w.set_f64(k, 1);
    kernels::Packed packed;
    const device::Target target = device::cpu_target(1, exec::libraries());
    const std::vector<Tensor> constants = {Tensor(), w};
    for (const int64_t rows : {64, 1, 3, 15, 96, 200, 1024}) {
      const ir::Graph g =
          ir::parse_graph(format("graph { input x: f32[%lld,384]; input w: f32[384,1536]; y: f32[%lld,1536] = "
                                 "matmul(x, w); output y }",
                                 static_cast<long long>(rows), static_cast<long long>(rows)))
              .value();
      auto made = kernel->instantiate({&g, {false, true}}, "slices=1", {constants, &packed, &target, nullptr});
      ASSERT_TRUE(made.ok()) << made.error().text();
      if (rows <= 15) EXPECT_GT((*made)->tasks(0), 1) << name << ": of few rows the columns are divided";
      if (rows == 64) std::memset(const_cast<std::byte*>(w.bytes().data()), 0, w.bytes().size());
      const Tensor x = ones({rows, kDepth}), y = ones({rows, kWidth});
      const std::vector<const void*> in = {x.data(), nullptr};
      const std::vector<void*> out = {const_cast<std::byte*>(y.bytes().data())};
      std::vector<std::byte> scratch((*made)->scratch_bytes() + 64);
      auto* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
      for (int64_t task = 0; task < (*made)->tasks(0); ++task) (*made)->run_task(0, task, {in, out, nullptr, aligned});
      EXPECT_EQ(y.f64(0), kDepth) << name << " at " << rows;
      EXPECT_EQ(y.f64(y.numel() - 1), kDepth) << name << " at " << rows;
    }
  }
}

}  // namespace
}  // namespace peri::runtime
