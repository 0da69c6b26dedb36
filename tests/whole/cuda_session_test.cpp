// Sessions on the CUDA device over a fake driver: a kept shape is replayed without planning, allocating or capturing,
// any call of the driver that fails is a typed error after which the session runs again, and nothing is left behind.
#include <gtest/gtest.h>

#include "device/cuda/cuda.hpp"
#include "exec/entry.hpp"
#include "runtime/engine.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using device::tests::Fakes;

class FakeSession : public testing::Test {
 protected:
  void SetUp() override { Fakes::control<void()>("driver", "fake_reset")(); }
  void TearDown() override { Fakes::control<void()>("driver", "fake_reset")(); }
  long live() { return Fakes::control<long()>("driver", "fake_live")(); }
  void fail(long call, int code) { Fakes::control<void(long, int)>("driver", "fake_fail")(call, code); }
  const Fakes fakes_{{"libcuda.so.1", "driver"}};
};

// y = x by two copies over two lanes, all of it on the GPU.
plan::Program program() {
  peri::tests::ProgramMaker m;
  m.p.dims = {"n"};
  m.p.devices = {"host", "cuda"};
  const int32_t x = m.input("x", DType::kF32, "[n,4]"), a = m.scratch("a", DType::kF32, "[n,4]");
  const int32_t y = m.buffer("y", plan::BufferKind::kOutput, DType::kF32, "[n,4]");
  for (plan::Buffer& b : m.p.buffers) b.device = 1;
  m.step("copy", {x}, {a}).device = 1;
  plan::Step& last = m.step("copy", {a}, {y});
  last.device = 1, last.lane = 1, last.waits_for = {0};
  m.output("y", y);
  return m.p;
}

Result<std::shared_ptr<const Engine>> engine() {
  static const std::vector<const Executor*> kTable = exec::table();
  EngineOptions o;
  o.executors = kTable;
  return Engine::create(program(), {}, o);
}

Tensor filled(int64_t n, float value) {
  return Tensor::of_f32({n, 4}, std::vector<float>(static_cast<size_t>(4 * n), value));
}
bool same(const Result<std::vector<Tensor>>& out, const Tensor& x) {
  return out.ok() && out->size() == 1 && std::ranges::equal((*out)[0].bytes(), x.bytes());
}

TEST_F(FakeSession, GoesBackToAKeptShapeWithCopiesAndOneReplay) {
  {
    const auto made = engine();
    ASSERT_TRUE(made.ok()) << made.error().text();
    auto session = Session::create(*made, 1).value();
    ASSERT_TRUE(session->prepare({{16, 4}}).ok());  // the largest first: nothing moves later
    for (int64_t n = 1; n < 8; ++n) ASSERT_TRUE(session->prepare({{n, 4}}).ok());
    EXPECT_EQ(session->captures(), 8);
    const device::Device& device = *session->resident_device();
    const auto before = device.counts();
    for (int round = 0; round < 3; ++round)
      for (const int64_t n : {16, 3, 7, 1, 2, 6, 5, 4}) {
        const Tensor x = filled(n, static_cast<float>(n + round));
        EXPECT_TRUE(same(session->run(std::vector<Tensor>{x}), x));
      }
    EXPECT_EQ(session->captures(), 8);
    EXPECT_EQ(session->shapes_bound(), 8);
    EXPECT_EQ(device.counts().allocations, before.allocations);
    EXPECT_EQ(device.counts().replays, before.replays + 24);
    EXPECT_EQ(device.counts().copies, before.copies + 24 * 4) << "in, two of the graph, out";
    ASSERT_TRUE(session->prepare({{8, 4}}).ok());  // the ninth: the oldest goes
    EXPECT_EQ(session->captures(), 9);
  }
  EXPECT_EQ(live(), 0);
}

TEST_F(FakeSession, RunsWhereOtherWorkOfTheProcessSpoiltItsCaptures) {
  {
    const auto made = engine();
    ASSERT_TRUE(made.ok()) << made.error().text();
    auto session = Session::create(*made, 1).value();
    Fakes::control<void(long)>("driver", "fake_spoil")(3);
    const Tensor x = filled(5, 2.5F);
    EXPECT_TRUE(same(session->run(std::vector<Tensor>{x}), x));
    EXPECT_EQ(session->captures(), 1);
    EXPECT_TRUE(same(session->run(std::vector<Tensor>{x}), x));
    EXPECT_EQ(session->captures(), 1);
  }
  EXPECT_EQ(live(), 0);
}

TEST_F(FakeSession, AnyCallOfTheDriverThatFailsIsToldAndTheNextRunIsRight) {
  int failures = 0;
  for (long call = 1;; ++call) {
    SCOPED_TRACE(call);
    bool failed = false;
    {
      fail(call, 2);  // no memory
      auto made = engine();
      if (!made.ok()) made = (failed = true, engine());
      ASSERT_TRUE(made.ok()) << made.error().text();
      auto session = Session::create(*made, 1);
      if (!session.ok()) session = (failed = true, Session::create(*made, 1));
      ASSERT_TRUE(session.ok()) << session.error().text();
      for (int run = 0; run < 2; ++run) {
        const Tensor x = filled(5, static_cast<float>(run + 2));
        auto out = (*session)->run(std::vector<Tensor>{x});
        if (!out.ok()) {
          EXPECT_FALSE(failed) << "a second failure: " << out.error().text();
          EXPECT_NE(out.error().kind, ErrorKind::kInternal) << out.error().text();
          failed = true;
          out = (*session)->run(std::vector<Tensor>{x});
        }
        EXPECT_TRUE(same(out, x)) << (out.ok() ? "other bits" : out.error().text());
      }
    }
    const bool reached = Fakes::control<long()>("driver", "fake_calls")() >= call;
    if (!failed) EXPECT_EQ(live(), 0);
    Fakes::control<void()>("driver", "fake_reset")();
    if (!reached) break;
    failures += failed;
  }
  EXPECT_GT(failures, 20);
}

// A GPU that fails for good in the middle of a run ends this process's sessions on it: each says so, in the same words,
// none waits or crashes, and all that was taken is given back.
TEST_F(FakeSession, AGpuThatFailsForGoodIsToldByEverySession) {
  int failures = 0;
  for (long call = 1;; ++call) {
    SCOPED_TRACE(call);
    const auto made = engine();
    ASSERT_TRUE(made.ok()) << made.error().text();
    {
      auto session = Session::create(*made, 1).value(), other = Session::create(*made, 1).value();
      const Tensor x = filled(5, 2);
      fail(call, 719);
      const auto out = session->run(std::vector<Tensor>{x});
      if (out.ok() || Fakes::control<long()>("driver", "fake_calls")() < call) break;
      ++failures;
      for (const char* part : {"cuda:0 failed", "(719)", "start again"})
        EXPECT_NE(out.error().text().find(part), std::string::npos) << part << " in " << out.error().text();
      for (Session* s : {session.get(), other.get()}) {
        const auto again = s->run(std::vector<Tensor>{x});
        ASSERT_FALSE(again.ok());
        EXPECT_NE(again.error().text().find("cuda:0 failed"), std::string::npos) << again.error().text();
      }
    }
    Fakes::control<void()>("driver", "fake_reset")();
  }
  EXPECT_GT(failures, 5);
}

TEST_F(FakeSession, AGpuThatIsNotThereIsNamedWithThoseThatAre) {
  static const std::vector<const Executor*> kTable = exec::table();
  EngineOptions o;
  o.executors = kTable;
  o.device = "cuda:0";
  EXPECT_TRUE(Engine::create(program(), {}, o).ok());
  o.device = "cuda:3";
  const auto refused = Engine::create(program(), {}, o);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_NE(refused.error().text().find("there is no cuda:3: expected cuda:0"), std::string::npos)
      << refused.error().text();
}

}  // namespace
}  // namespace peri::runtime
