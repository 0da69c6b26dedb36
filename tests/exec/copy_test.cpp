// A copied value is there in the next run: a state sums what every run brings, for sizes around a task's piece and any
// number of threads; programs that copy between unlike buffers are refused.
#include <gtest/gtest.h>

#include "exec/entry.hpp"
#include "runtime/engine.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using plan::BufferKind;
using tests::ProgramMaker;

Result<std::shared_ptr<const Engine>> engine_of(const plan::Program& p) {
  static const std::vector<const Executor*> table = exec::table();
  return Engine::create(p, {}, {table, {{"avx2"}, {}}, 3});
}

// y = state + x, and the state becomes y.
plan::Program running_sum() {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), state = m.buffer("sum", BufferKind::kState, DType::kF32, "[n]");
  const int32_t y = m.scratch("y", DType::kF32, "[n]");
  m.reference({x, state}, {y}, "graph { input x: f32[n]; input s: f32[n]; y = add(x, s); output y; }");
  m.step("copy", {y}, {state});
  m.output("y", y);
  return m.p;
}

TEST(Copy, CarriesAStateFromRunToRun) {
  const auto engine = engine_of(running_sum());
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  for (const int threads : {1, 3}) {
    for (const int64_t n : {1, 65536, 65537, 300001}) {
      auto session = Session::create(*engine, threads);
      ASSERT_TRUE(session.ok());
      std::vector<float> values(static_cast<size_t>(n));
      for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 100);
      const std::vector<Tensor> in = {Tensor::of_f32({n}, values)};
      for (int turn = 1; turn <= 3; ++turn) {
        const auto out = (*session)->run(in);
        ASSERT_TRUE(out.ok()) << out.error().text();
        for (int64_t k = 0; k < n; k += 97)
          ASSERT_EQ((*out)[0].f64(k), static_cast<double>(turn * (k % 100))) << n << " at " << k;
        ASSERT_EQ((*out)[0].f64(n - 1), static_cast<double>(turn * ((n - 1) % 100)));
      }
    }
  }
}

std::string error_of(const plan::Program& p) {
  const auto engine = engine_of(p);
  if (!engine.ok()) return engine.error().text();
  auto session = Session::create(*engine, 1);
  const auto out = (*session)->run(std::vector<Tensor>{Tensor::of_f32({3}, std::vector<float>{1, 2, 3})});
  return out.ok() ? "" : out.error().text();
}

plan::Program copy_to(DType dtype, const std::string& shape, const std::string& payload = "") {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), y = m.buffer("y", BufferKind::kOutput, dtype, shape);
  m.step("copy", {x}, {y}, payload);
  m.output("y", y);
  return m.p;
}

TEST(Copy, UnlikeBuffersAreRefused) {
  EXPECT_EQ(error_of(copy_to(DType::kF32, "[n]")), "");
  EXPECT_NE(error_of(copy_to(DType::kI32, "[n]")).find("different types"), std::string::npos);
  EXPECT_NE(error_of(copy_to(DType::kF32, "[n+1]")).find("different sizes"), std::string::npos);
  EXPECT_NE(error_of(copy_to(DType::kF32, "[n]", "more")).find("no payload"), std::string::npos);
  plan::Program two = copy_to(DType::kF32, "[n]");
  two.steps[0].reads.push_back(two.steps[0].reads[0]);
  EXPECT_NE(error_of(two).find("one argument"), std::string::npos);
}

}  // namespace
}  // namespace peri::runtime
