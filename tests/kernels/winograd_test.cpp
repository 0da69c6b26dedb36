// Winograd convolution against float64 sums within its stated factor, over sizes, paddings, dilations, channels and
// epilogues; no access out of bounds; the same bits for any order of tasks and any number of threads.
#include "kernels/cpu/conv/winograd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "guarded.hpp"

namespace peri::kernels::cpu {
namespace {

Bounded reference(const ConvShape& s, const float* x, const float* w, int64_t p, int64_t o, double factor) {
  const int64_t ox = p % s.ow(), oy = p / s.ow() % s.oh(), image = p / s.ow() / s.oh();
  double sum = 0, magnitude = 0;
  for (int64_t tap = 0; tap < 9; ++tap) {
    const int64_t iy = oy - s.top + tap / 3 * s.dh, ix = ox - s.left + tap % 3 * s.dw;
    if (iy < 0 || iy >= s.ih || ix < 0 || ix >= s.iw) continue;
    for (int64_t c = 0; c < s.ic; ++c) {
      const double term = double{x[((image * s.ih + iy) * s.iw + ix) * s.ic + c]} * w[(o * s.ic + c) * 9 + tap];
      sum += term;
      magnitude += std::abs(term);
    }
  }
  return {sum, factor * std::sqrt(9.0 * static_cast<double>(s.ic)) * 0x1p-24 * magnitude};
}

// Gives the largest error as a share of its radius.
double check(const ConvShape& s, int64_t m, Isa isa, uint64_t seed, const Epilogue& epilogue = {}) {
  EXPECT_EQ(refuse_winograd(s, m), "");
  const int64_t pixels = s.n * s.oh() * s.ow();
  const auto side = seed % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin;
  Guarded x(s.n * s.ih * s.iw * s.ic, side), w(s.oc * s.ic * 9, side), y(pixels * s.oc, side);
  Guarded packed(packed_winograd_floats(s, m, isa), side);
  x.randomise(seed);
  w.randomise(seed + 1);
  y.fill(std::numeric_limits<float>::quiet_NaN());
  pack_winograd_weights(w.data(), s, m, isa, packed.data());
  const WinogradPlan plan = plan_winograd(s, m, isa);
  const ConvArgs args{.x = x.data(), .w = packed.data(), .y = y.data(), .epilogue = epilogue};
  const auto run_all = [&](bool descending, const WinogradPlan& plan) {
    Guarded scratch((plan.scratch_floats + 15) / 16 * 16);  // 64-byte aligned
    scratch.fill(std::numeric_limits<float>::quiet_NaN());
    for (int64_t t = 0; t < plan.tasks; ++t) run_task(plan, args, descending ? plan.tasks - 1 - t : t, scratch.data());
  };
  run_all(false, plan);
  const double factor = m == 2 ? kWinogradErrorFactor2 : kWinogradErrorFactor4;
  double worst = 0;
  int wrong = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const Bounded want =
        finish(epilogue, reference(s, x.data(), w.data(), i / s.oc, i % s.oc, factor), i / s.oc, i % s.oc);
    const double error = std::abs(y[i] - want.value);
    if (want.radius > 0) worst = std::max(worst, error / want.radius);
    if (!(error <= want.radius) && ++wrong <= 3) {
      ADD_FAILURE() << "m=" << m << " " << isa_name(isa) << " seed=" << seed << " at " << i << ": " << y[i] << " want "
                    << want.value << " +- " << want.radius;
    }
  }
  std::vector<float> out(y.begin(), y.end());
  run_all(true, plan);
  EXPECT_EQ(std::memcmp(out.data(), y.data(), out.size() * sizeof(float)), 0) << "order of tasks, seed=" << seed;
  for (const int threads : {2, 16, 61}) {
    const WinogradPlan other = plan_winograd(s, m, isa, 0, threads);
    if (other.tasks == plan.tasks) continue;
    y.fill(std::numeric_limits<float>::quiet_NaN());
    run_all(false, other);
    EXPECT_EQ(std::memcmp(out.data(), y.data(), out.size() * sizeof(float)), 0) << threads << " threads, seed=" << seed;
  }
  return worst;
}

TEST(Winograd, SizesPaddingsDilationsChannels) {
  for (Isa isa : isas_here()) {
    for (int64_t m : {2, 4}) {
      uint64_t seed = 1;
      double worst = 0;
      for (int64_t size : {1, 3, 4, 6, 7, 9, 14}) {
        for (int64_t pad : {0, 1, 2}) {
          for (int64_t dilation : {1, 2, 3}) {
            ConvShape s{.n = 2, .ih = size, .iw = size + 2, .ic = 17, .oc = 37, .kh = 3, .kw = 3};
            s.dh = dilation;
            s.dw = dilation;
            s.top = s.left = s.right = pad;
            s.bottom = pad / 2;
            if (!refuse_winograd(s, m).empty()) continue;
            worst = std::max(worst, check(s, m, isa, seed++));
          }
        }
      }
      worst = std::max(worst,
                       check({.n = 3, .ih = 14, .iw = 14, .ic = 256, .oc = 70, .kh = 3, .kw = 3, .top = 1}, m, isa, 9));
      worst = std::max(worst, check({.ih = 20, .iw = 31, .ic = 64, .oc = 64, .kh = 3, .kw = 3, .left = 1}, m, isa, 10));
      std::printf("m=%d %s: largest error %.2f of the radius\n", static_cast<int>(m),
                  std::string(isa_name(isa)).c_str(), worst);
    }
  }
}

TEST(Winograd, Epilogues) {
  for (Isa isa : isas_here()) {
    for (int64_t m : {2, 4}) {
      const ConvShape s{
          .n = 2, .ih = 6, .iw = 7, .ic = 8, .oc = 21, .kh = 3, .kw = 3, .top = 1, .left = 1, .bottom = 1, .right = 1};
      const int64_t pixels = s.n * s.oh() * s.ow(), ld = 25;
      Guarded bias(21), residual(pixels * ld), rows(pixels);
      bias.randomise(1);
      residual.randomise(2);
      rows.randomise(3);
      Epilogue e;
      add_bias(e, bias.data());
      add_residual(e, residual.data(), ld);
      add_activation(e, Activation::kClip, -0.5f, 2.0f);
      check(s, m, isa, 3, e);
      Epilogue more;
      add_activation(more, Activation::kSilu);
      add_residual(more, residual.data(), ld);
      add_op(more, {.kind = PostKind::kRowMul, .data = rows.data()});
      check(s, m, isa, 4, more);
    }
  }
}

TEST(Winograd, RefusesWithAReason) {
  EXPECT_NE(refuse_winograd({.ih = 9, .iw = 9, .ic = 4, .oc = 4, .kh = 3, .kw = 3, .sh = 2}, 4), "");
  EXPECT_NE(refuse_winograd({.ih = 9, .iw = 9, .ic = 4, .oc = 4, .kh = 5, .kw = 3}, 4), "");
  EXPECT_NE(refuse_winograd({.ih = 9, .iw = 9, .ic = 4, .oc = 4, .kh = 3, .kw = 3, .groups = 2}, 4), "");
  EXPECT_NE(refuse_winograd({.ih = 9, .iw = 9, .ic = 4, .oc = 4, .kh = 3, .kw = 3}, 3), "");
}

}  // namespace
}  // namespace peri::kernels::cpu
