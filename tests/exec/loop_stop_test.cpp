// A loop ends where its run is cancelled, also one whose body has no steps, and a server's view of it foretells no
// time.
#include <gtest/gtest.h>

#include "exec/entry.hpp"
#include "runtime/engine_servable.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using tests::ProgramMaker;

// trips, x[n] -> x: the body gives back what it is given.
plan::Program idle_loop() {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t trips = m.input("trips", DType::kI64, "[]"), x = m.input("x", DType::kI64, "[n]");
  const int32_t last = m.scratch("last", DType::kI64, "[n]");
  ProgramMaker body;
  body.p.dims = {"n"};
  body.input("i", DType::kI64, "[]");
  const int32_t go = body.input("go", DType::kBool, "[]"), v = body.input("v", DType::kI64, "[n]");
  body.output("more", go);
  body.output("w", v);
  plan::Step& loop = m.step("loop", {trips, -1, x}, {last}, "carried=1");
  loop.bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("last", last);
  return m.p;
}

Result<std::shared_ptr<const Engine>> engine_of(const plan::Program& p, int64_t most) {
  static const std::vector<const Executor*> table = exec::table();
  EngineOptions options{table, {{"avx2"}, {}}, 1};
  options.max_iterations = most;
  return Engine::create(p, {}, options);
}

std::vector<Tensor> inputs(int64_t trips) {
  return {Tensor::of_i64({}, std::vector<int64_t>{trips}), Tensor::of_i64({2}, std::vector<int64_t>{1, 2})};
}

TEST(LoopStop, EachIterationAsks) {
  const auto engine = engine_of(idle_loop(), 100000);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = Session::create(*engine);
  ASSERT_TRUE(session.ok());
  int64_t asked = 0;
  (*session)->stop_when([&] { return ++asked > 50; });
  const auto out = (*session)->run(inputs(INT64_MAX));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kCancelled) << out.error().text();
  (*session)->stop_when({});
  const auto after = (*session)->run(inputs(9));
  ASSERT_TRUE(after.ok()) << after.error().text();
  EXPECT_EQ((*after)[0].i64(1), 2);
}

TEST(LoopStop, ItsTimeIsNotForetold) {
  const auto engine = engine_of(idle_loop(), 100000);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto model = EngineServable::create(*engine, 1, 1);
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE((*model)->run(inputs(3)).ok());
  EXPECT_EQ((*model)->cost(inputs(3)).expected_ns, -1) << "the next may have any number of iterations";
  ProgramMaker plain;
  plain.p.dims = {"n"};
  const int32_t x = plain.input("x", DType::kI64, "[n]"), y = plain.scratch("y", DType::kI64, "[n]");
  plain.reference({x}, {y}, "graph { input x: i64[n]; y = add(x, x); output y }");
  plain.output("y", y);
  const auto other = engine_of(plain.p, 1);
  ASSERT_TRUE(other.ok()) << other.error().text();
  const auto known = EngineServable::create(*other, 1, 1);
  ASSERT_TRUE(known.ok());
  const std::vector<Tensor> in = {Tensor::of_i64({2}, std::vector<int64_t>{1, 2})};
  ASSERT_TRUE((*known)->run(in).ok());
  EXPECT_GE((*known)->cost(in).expected_ns, 0);
}

}  // namespace
}  // namespace peri::runtime
