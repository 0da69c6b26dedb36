// Which steps on the reference are called slow: those whose time counts.
#include "build/on_reference.hpp"

#include <gtest/gtest.h>

namespace peri::build {
namespace {

lower::StepReport step(const char* chosen, std::optional<double> ms, double elements) {
  lower::StepReport s;
  s.chosen = chosen;
  if (ms) s.in_run = lower::InRun{1, *ms};
  s.work.flops = elements;
  s.work.bytes = 8 * elements;
  return s;
}

TEST(OnReference, TheShareOfARunDecidesWhereItIsKnown) {
  compile::Compiled compiled;
  compiled.predicted_ms = 1;
  compiled.steps = {step("gemm@1 {}", 0.8, 1e6), step("reference", 0.15, 4), step("reference", 0.002, 1e5),
                    step("reference", 0.003, 1)};
  compiled.steps[0].bodies = {{step("reference", 0.02, 4), step("reference", 0.004, 4)}};
  const OnReference of = on_reference(compiled);
  EXPECT_EQ(of.slow, (std::vector<const lower::StepReport*>{&compiled.steps[0].bodies[0][0], &compiled.steps[1]}));
  EXPECT_EQ(of.quick.size(), 3u);
  EXPECT_NEAR(of.quick_ms, 0.009, 1e-12);
}

TEST(OnReference, WorkDecidesWhereNothingWasTimed) {
  compile::Compiled compiled;
  compiled.steps = {step("reference", std::nullopt, 4), step("reference", std::nullopt, 1e4)};
  compiled.steps[1].bodies = {{step("reference", std::nullopt, 4)}};
  const OnReference of = on_reference(compiled);
  EXPECT_EQ(of.slow, (std::vector<const lower::StepReport*>{&compiled.steps[1], &compiled.steps[1].bodies[0][0]}));
  EXPECT_EQ(of.quick, (std::vector<const lower::StepReport*>{&compiled.steps[0]}));
  EXPECT_EQ(of.quick_ms, 0);
}

}  // namespace
}  // namespace peri::build
