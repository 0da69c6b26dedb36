// Whole models on a GPU: the judge of the engine finds nothing, every step is there, and runs give the same bits.
// label: gpu
#include <gtest/gtest.h>

#include <algorithm>

#include "build/build.hpp"
#include "exec/entry.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {

class GpuModel : public testing::TestWithParam<const char*> {};

TEST_P(GpuModel, IsRightAndRunsThereAlone) {
  const auto table = exec::table();
  Options o;
  o.compile.model = std::string(tests::kSourceDir) + "/models/" + GetParam();
  o.compile.backend = "cuda";
  o.compile.tune.threads = 2;
  o.judge = true;
  o.executors = table;
  const auto built = build_engine(o);
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_TRUE(built->verdict.right());
  EXPECT_GE(built->verdict.sizes.size(), 2U);
  const plan::Program& p = built->compiled.program;
  EXPECT_TRUE(std::all_of(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.device != plan::kHost; }));
  runtime::WeightSource weights;
  weights.tensors = built->compiled.weights;
  auto engine = runtime::Engine::create(p, std::move(weights), engine_options(table, 2));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok()) << session.error().text();
  const std::vector<Tensor> x = {*Tensor::zeros(DType::kF32, {3, 1, 8, 8})};
  const auto first = (*session)->run(x);
  ASSERT_TRUE(first.ok()) << first.error().text();
  for (int k = 0; k < 1000; ++k) {
    const auto again = (*session)->run(x);
    ASSERT_TRUE(again.ok()) << again.error().text();
    ASSERT_TRUE(std::ranges::equal((*again)[0].bytes(), (*first)[0].bytes())) << k;
  }
}
INSTANTIATE_TEST_SUITE_P(Models, GpuModel, testing::Values("digits_cnn.onnx", "digits_transformer.onnx"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, std::string(info.param).find('.'));
                         });

}  // namespace
}  // namespace peri::build
