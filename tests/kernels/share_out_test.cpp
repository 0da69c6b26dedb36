// The division of products and convolutions into tasks: what ordinary layers lose to threads that wait for the last
// one, and that it costs no more tasks than that takes.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/conv/winograd.hpp"
#include "kernels/cpu/gemm/gemm.hpp"

namespace peri::kernels::cpu {
namespace {

constexpr Isa kIsas[] = {Isa::kAvx2, Isa::kAvx512};  // plans need no processor that has it

// The share of the threads' time that they work, if all tasks take the same time.
double busy(int64_t tasks, int threads) {
  const int64_t rounds = (tasks + threads - 1) / threads;
  return static_cast<double>(tasks) / static_cast<double>(rounds * threads);
}

ConvShape layer(int64_t size, int64_t ic, int64_t oc, int64_t kernel) {
  ConvShape s{.n = 1, .ih = size, .iw = size, .ic = ic, .oc = oc, .kh = kernel, .kw = kernel};
  s.top = s.left = s.bottom = s.right = kernel / 2;
  return s;
}

const std::vector<ConvShape> kLayers = {layer(56, 64, 64, 1),   layer(56, 64, 256, 1),  layer(28, 128, 128, 3),
                                        layer(28, 512, 128, 1), layer(14, 256, 256, 3), layer(14, 1024, 256, 1),
                                        layer(7, 512, 512, 3),  layer(7, 2048, 512, 1)};

TEST(ShareOut, SixteenThreadsAreBusyInConvolutions) {
  for (const Isa isa : kIsas) {
    for (const ConvShape& s : kLayers) {
      const ConvPlan plan = plan_conv(s, isa, {}, 16);
      EXPECT_GE(busy(plan.tasks, 16), 0.85) << plan_text(plan);
      const double flops = 2.0 * static_cast<double>(s.oh() * s.ow() * s.kh * s.kw) * static_cast<double>(s.ic * s.oc);
      EXPECT_GE(flops / static_cast<double>(plan.tasks), 1e5) << plan_text(plan) << ": tasks too small to pay";
    }
  }
}

TEST(ShareOut, SixteenThreadsAreBusyInAFirstLayer) {
  ConvShape s = layer(224, 3, 64, 7);
  s.sh = s.sw = 2;
  s.x_form = XForm::kNchw;
  for (const Isa isa : kIsas) {
    const ConvPlan plan = plan_conv(s, isa, {}, 16);
    EXPECT_GE(busy(plan.tasks, 16), 0.85) << plan_text(plan);
  }
}

TEST(ShareOut, SixteenThreadsAreBusyInProducts) {
  for (const Isa isa : kIsas) {
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {197, 768, 768}, {1, 1000, 2048}, {1, 4096, 1024}}) {
      const GemmPlan plan = plan_gemm({.m = m, .n = n, .k = k}, isa, {}, 16);
      EXPECT_GE(busy(plan.tasks, 16), 0.85) << plan_text(plan);
    }
  }
}

TEST(ShareOut, AWinogradConvolutionOfASmallImageHasWorkForAll) {
  for (const Isa isa : kIsas) EXPECT_GE(plan_winograd(layer(14, 256, 256, 3), 2, isa, 0, 16).tasks, 16);
}

TEST(ShareOut, OneThreadHasFewTasks) {
  for (const Isa isa : kIsas) {
    for (const ConvShape& s : kLayers)
      EXPECT_LE(plan_conv(s, isa, {}, 1).tasks, plan_conv(s, isa, {}, 16).tasks) << plan_text(plan_conv(s, isa));
  }
}

TEST(ShareOut, ASettingIsNotChanged) {
  for (const Isa isa : kIsas) {
    const ConvPlan plan = plan_conv(layer(28, 128, 128, 3), isa, {.pixels = 28, .panels = 1}, 16);
    EXPECT_EQ(plan.row_blocks, 28) << plan_text(plan);
    EXPECT_EQ(plan.panel_blocks, plan.panels.panels) << plan_text(plan);
    const GemmPlan product = plan_gemm({.m = 128, .n = 768, .k = 768}, isa, {.rows = 64, .panels = 4}, 16);
    EXPECT_EQ(product.m_blocks, 2) << plan_text(product);
    EXPECT_EQ(product.n_blocks, (product.panels.panels + 3) / 4) << plan_text(product);
  }
}

TEST(ShareOut, TimeOfTasks) {
  EXPECT_EQ(time_of_tasks(2, 5, 1), 10);
  EXPECT_EQ(time_of_tasks(3, 17, 16) - time_of_tasks(3, 16, 16), 3) << "one task more is a round more";
  EXPECT_LT(time_of_tasks(0.5, 32, 16), time_of_tasks(1, 16, 16)) << "of two even grids the finer one";
}

}  // namespace
}  // namespace peri::kernels::cpu
