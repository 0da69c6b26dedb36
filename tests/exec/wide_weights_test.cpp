// A weight that is stored in 16 bits is widened when it is asked for, once for all who have it, and goes with the last.
#include "exec/weights/wide_weights.hpp"

#include <gtest/gtest.h>

#include "exec/region/region_payload.hpp"
#include "tests/exec/engines.hpp"
#include "tests/plan/programs.hpp"

namespace peri::exec {
namespace {

constexpr const char* kRegion =
    "graph { input x: f32[2,3]; input w: f32[3,4]; input n: i64[1]; y = matmul(x, w); output y }";

Tensor halves() {
  Tensor t = *Tensor::zeros(DType::kF16, {3, 4});
  for (int64_t k = 0; k < 12; ++k) t.set_f64(k, 0.5 * static_cast<double>(k));
  return t;
}

TEST(WideWeights, AreWidenedWhenAskedForAndSharedWhileHeld) {
  const ir::Graph region = *ir::parse_graph(kRegion);
  WideWeights weights({{}, halves(), *Tensor::zeros(DType::kI64, {1})}, region);
  const device::Target& target = device::this_cpu();
  Tensor kept;
  const void* at = nullptr;
  {
    WideWeights::Turn turn(weights, target);
    const kernels::Constants c = turn.constants();
    EXPECT_FALSE(c[0].defined());
    EXPECT_EQ(c[2].data(), weights.stored()[2].data()) << "as it is stored";
    EXPECT_EQ(c[1].dtype(), DType::kF32);
    EXPECT_EQ(c[1].dims(), (std::vector<int64_t>{3, 4}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(c[1].data()) % 64, 0U);
    for (int64_t k = 0; k < 12; ++k) EXPECT_EQ(c[1].f64(k), 0.5 * static_cast<double>(k));
    EXPECT_EQ(c[1].data(), c[1].data());
    kept = c[1];
    at = kept.data();
  }
  {
    WideWeights::Turn turn(weights, target);
    EXPECT_EQ(turn.constants()[1].data(), at) << "somebody has it";
  }
  EXPECT_EQ(kept.f64(11), 5.5) << "it outlives the turn";
}

plan::Program program_with(const char* executor, const char* kernel, DType stored, const char* type) {
  tests::ProgramMaker m;
  const int32_t x = m.input("x", DType::kF32, "[2,3]"), w = m.weight("w", stored, {3, 4});
  const int32_t y = m.buffer("y", plan::BufferKind::kOutput, DType::kF32, "[2,4]");
  m.step(executor, {x, w}, {y},
         std::string("kernel ") + kernel + "@1 {}\ngraph { input x: f32[2,3]; input w: " + type +
             "[3,4]; y: f32[2,4] = matmul(x, w); output y }");
  m.output("y", y);
  return std::move(m.p);
}

TEST(WideWeights, StandInEnginesOfEveryExecutor) {
  const std::vector<Tensor> in = {runtime::tests::ones({2, 3})};
  for (const auto& [executor, kernel] : {std::pair{"cpu", "gemm_f32"}, std::pair{"reference", "reference"}}) {
    runtime::WeightSource weights;
    weights.tensors = {halves()};
    auto engine = runtime::tests::engine_of(program_with(executor, kernel, DType::kF16, "f32"), nullptr, weights);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    const auto y = (*runtime::Session::create(*engine))->run(in);
    ASSERT_TRUE(y.ok()) << y.error().text();
    for (int64_t k = 0; k < 8; ++k)
      EXPECT_EQ((*y)[0].f64(k), 6 + 1.5 * static_cast<double>(k % 4)) << executor << " at " << k;
  }
}

TEST(WideWeights, AreOf16BitsForFloat32AndNothingElse) {
  for (const auto& [stored, type] : {std::pair{DType::kF16, "f64"}, std::pair{DType::kI16, "f32"},
                                     std::pair{DType::kF32, "f16"}, std::pair{DType::kF64, "f32"}}) {
    runtime::WeightSource weights;
    weights.tensors = {*Tensor::zeros(stored, {3, 4})};
    auto engine =
        runtime::tests::engine_of(program_with("reference", "reference", stored, type), nullptr, std::move(weights));
    std::string why = engine.ok() ? "" : engine.error().text();
    if (engine.ok()) {
      const auto y = (*runtime::Session::create(*engine))->run(std::vector<Tensor>{runtime::tests::ones({2, 3})});
      why = y.ok() ? "" : y.error().text();
    }
    EXPECT_NE(why.find("has another type"), std::string::npos) << dtype_name(stored) << " as " << type << ": " << why;
  }
}

}  // namespace
}  // namespace peri::exec
