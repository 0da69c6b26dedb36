// Convolution against float64 sums over sizes, strides, dilations, paddings, groups, layouts and epilogues; no access
// out of bounds; the same bits for any order of tasks, any number of threads and every Isa this machine runs.
#include "kernels/cpu/conv/conv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "guarded.hpp"

namespace peri::kernels::cpu {
namespace {

Bounded reference(const ConvShape& s, const float* x, int64_t x_pixel, const float* w, int64_t image, int64_t oy,
                  int64_t ox, int64_t o) {
  const int64_t channels = s.ic / s.groups, c0 = o / (s.oc / s.groups) * channels;
  double sum = 0, magnitude = 0;
  for (int64_t ky = 0; ky < s.kh; ++ky) {
    for (int64_t kx = 0; kx < s.kw; ++kx) {
      const int64_t iy = oy * s.sh - s.top + ky * s.dh, ix = ox * s.sw - s.left + kx * s.dw;
      if (iy < 0 || iy >= s.ih || ix < 0 || ix >= s.iw) continue;
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = s.x_form == XForm::kNchw ? ((image * s.ic + c0 + c) * s.ih + iy) * s.iw + ix
                                                    : ((image * s.ih + iy) * s.iw + ix) * x_pixel + c0 + c;
        const double term = double{x[at]} * w[((o * channels + c) * s.kh + ky) * s.kw + kx];
        sum += term;
        magnitude += std::abs(term);
      }
    }
  }
  return {sum, 4 * std::sqrt(static_cast<double>(channels * s.kh * s.kw)) * 0x1p-24 * magnitude};
}

void run_all(const ConvPlan& plan, const ConvArgs& args, bool descending) {
  Guarded scratch((plan.scratch_floats + 15) / 16 * 16);  // 64-byte aligned
  scratch.fill(std::numeric_limits<float>::quiet_NaN());
  for (int64_t t = 0; t < plan.tasks; ++t) run_task(plan, args, descending ? plan.tasks - 1 - t : t, scratch.data());
}

// `extra`: channels that other tensors have beside ours in each pixel of x and y.
std::vector<float> check(const ConvShape& s, Isa isa, uint64_t seed, const Epilogue& epilogue = {}, int64_t extra = 0) {
  EXPECT_EQ(refuse_conv(s), "");
  const int64_t x_pixel = s.ic + extra, y_pixel = s.oc + extra, pixels = s.n * s.oh() * s.ow();
  const auto side = seed % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin;
  Guarded x(s.n * s.ih * s.iw * x_pixel - extra, side), w(s.oc * (s.ic / s.groups) * s.kh * s.kw, side);
  Guarded y(pixels * y_pixel - extra, side), packed(packed_conv_floats(s, isa), side);
  x.randomise(seed);
  w.randomise(seed + 1);
  const float untouched = 12345;
  y.fill(untouched);
  pack_conv_weights(w.data(), s, isa, packed.data());
  const ConvPlan plan = plan_conv(s, isa);
  ConvArgs args{.x = x.data(), .w = packed.data(), .y = y.data(), .epilogue = epilogue};
  if (extra != 0) {
    args.x_pixel = x_pixel;
    args.y_pixel = y_pixel;
  }
  run_all(plan, args, false);
  int wrong = 0;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t o = 0; o < s.oc; ++o) {
      const int64_t ox = p % s.ow(), oy = p / s.ow() % s.oh(), image = p / s.ow() / s.oh();
      const Bounded want = finish(epilogue, reference(s, x.data(), x_pixel, w.data(), image, oy, ox, o), p, o);
      const double got = y[p * y_pixel + o];
      if (std::abs(got - want.value) <= want.radius) continue;
      if (++wrong <= 3) {
        ADD_FAILURE() << plan_text(plan) << " seed=" << seed << " pixel " << p << " channel " << o << ": " << got
                      << " want " << want.value << " +- " << want.radius;
      }
    }
    for (int64_t o = s.oc; o < y_pixel && p + 1 < pixels; ++o) {
      if (y[p * y_pixel + o] != untouched) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0) << plan_text(plan);
  std::vector<float> out(y.begin(), y.end());
  y.fill(untouched);
  run_all(plan, args, true);
  EXPECT_EQ(std::memcmp(out.data(), y.data(), out.size() * sizeof(float)), 0) << plan_text(plan) << ": order of tasks";
  for (const int threads : {2, 16, 61}) {
    const ConvPlan other = plan_conv(s, isa, {}, threads);
    if (other.tasks == plan.tasks) continue;
    y.fill(untouched);
    run_all(other, args, false);
    EXPECT_EQ(std::memcmp(out.data(), y.data(), out.size() * sizeof(float)), 0)
        << plan_text(other) << ": other bits than " << plan_text(plan);
  }
  return out;
}

TEST(Conv, SizesStridesDilationsPaddings) {
  for (Isa isa : isas_here()) {
    uint64_t seed = 1;
    for (int64_t kernel : {1, 2, 3, 5}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t dilation : {1, 2}) {
          for (int64_t pad : {0, 1, 3}) {
            ConvShape s{.n = 2, .ih = 11, .iw = 13, .ic = 9, .oc = 19, .kh = kernel, .kw = kernel};
            s.sh = stride;
            s.sw = stride;
            s.dh = dilation;
            s.dw = dilation;
            s.top = pad;
            s.left = pad;
            s.bottom = pad / 2;
            s.right = pad / 3;
            check(s, isa, seed++);
            s.groups = s.ic = s.oc = 9;
            check(s, isa, seed++);
          }
        }
      }
    }
  }
}

TEST(Conv, RectanglesAndManyChannels) {
  for (Isa isa : isas_here()) {
    check(
        {.n = 3, .ih = 7, .iw = 7, .ic = 64, .oc = 70, .kh = 3, .kw = 3, .top = 1, .left = 1, .bottom = 1, .right = 1},
        isa, 1);
    check({.ih = 4, .iw = 17, .ic = 33, .oc = 8, .kh = 1, .kw = 5, .sh = 2, .left = 2}, isa, 2);
    check({.ih = 9, .iw = 2, .ic = 5, .oc = 129, .kh = 7, .kw = 2, .sw = 2, .top = 3, .bottom = 3}, isa, 3);
    check({.ih = 5, .iw = 5, .ic = 700, .oc = 33, .kh = 3, .kw = 3}, isa, 4);
    check({.n = 2, .ih = 6, .iw = 5, .ic = 24, .oc = 36, .kh = 3, .kw = 3, .top = 1, .left = 1, .groups = 4}, isa, 5);
    check({.ih = 20, .iw = 20, .ic = 16, .oc = 32, .kh = 3, .kw = 3, .top = 2, .left = 2, .groups = 16}, isa, 6);
    check({.ih = 1, .iw = 1, .ic = 1, .oc = 1}, isa, 7);
    check({.ih = 1, .iw = 1, .ic = 40, .oc = 100, .kh = 3, .kw = 3, .top = 1, .left = 1, .bottom = 1, .right = 1}, isa,
          8);
  }
}

TEST(Conv, FirstLayerFromNhwcAndNchw) {
  for (Isa isa : isas_here()) {
    for (XForm form : {XForm::kNhwc, XForm::kNchw}) {
      uint64_t seed = 1;
      for (int64_t channels : {1, 3, 4}) {
        ConvShape s{.n = 2, .ih = 33, .iw = 31, .ic = channels, .oc = 37, .kh = 7, .kw = 7, .sh = 2, .sw = 2};
        s.top = s.left = s.bottom = s.right = 3;
        s.x_form = form;
        check(s, isa, seed++);
        s.kh = s.kw = 3;
        s.dh = 2;
        s.sw = 3;
        s.left = 5;
        s.right = 40;
        check(s, isa, seed++);
        s.iw = 2;
        s.left = 1;
        s.right = 0;
        s.kw = 2;
        check(s, isa, seed++);
      }
    }
  }
}

TEST(Conv, DepthwiseWidths) {
  for (Isa isa : isas_here()) {
    for (int64_t kernel : {3, 5, 7}) {
      for (int64_t stride : {1, 2}) {
        for (int64_t width = 1; width <= 20; ++width) {
          ConvShape s{.ih = 6, .iw = width, .ic = 50, .oc = 50, .kh = kernel, .kw = kernel, .sh = stride, .sw = stride};
          s.top = s.left = s.bottom = s.right = kernel / 2;
          s.groups = 50;
          check(s, isa, 10 * width + kernel);
        }
      }
    }
    check({.n = 2, .ih = 9, .iw = 9, .ic = 700, .oc = 700, .kh = 3, .kw = 3, .top = 1, .left = 1, .groups = 700}, isa,
          1);
  }
}

TEST(Conv, EpiloguesAndNeighbours) {
  for (Isa isa : isas_here()) {
    for (int64_t groups : {1, 2, 20}) {
      const ConvShape s{.n = 2,
                        .ih = 5,
                        .iw = 6,
                        .ic = 20,
                        .oc = 20,
                        .kh = 3,
                        .kw = 3,
                        .top = 1,
                        .left = 1,
                        .bottom = 1,
                        .right = 1,
                        .groups = groups};
      const int64_t pixels = 2 * 5 * 6, ld = 23;
      Guarded bias(20), rows(pixels), residual(pixels * ld);
      bias.randomise(1);
      rows.randomise(2);
      residual.randomise(3);
      Epilogue e;
      add_bias(e, bias.data());
      add_residual(e, residual.data(), ld);
      add_activation(e, Activation::kRelu);
      check(s, isa, 5, e, 3);
      Epilogue more;
      add_bias(more, bias.data());
      add_activation(more, Activation::kHardSwish);
      add_residual(more, residual.data(), ld);
      add_op(more, {.kind = PostKind::kRowMul, .data = rows.data()});
      add_op(more, {.kind = PostKind::kColMul, .data = bias.data()});
      check(s, isa, 6, more, 5);
    }
  }
}

TEST(Conv, AnswersDoNotDependOnTheIsa) {
  if (isas_here().size() < 2) GTEST_SKIP() << "one instruction set here";
  ConvShape s{.n = 2, .ih = 14, .iw = 14, .ic = 200, .oc = 50, .kh = 3, .kw = 3, .top = 1, .left = 1};
  EXPECT_EQ(check(s, Isa::kAvx2, 3), check(s, Isa::kAvx512, 3));
  s.ic = s.oc = s.groups = 50;
  EXPECT_EQ(check(s, Isa::kAvx2, 4), check(s, Isa::kAvx512, 4));
  s.groups = 1;
  s.ic = 3;
  EXPECT_EQ(check(s, Isa::kAvx2, 5), check(s, Isa::kAvx512, 5));
}

TEST(Conv, RefusesWithAReason) {
  EXPECT_NE(refuse_conv({.ih = 3, .iw = 3, .ic = 4, .oc = 4, .kh = 5, .kw = 1}), "");
  EXPECT_NE(refuse_conv({.ih = 3, .iw = 3, .ic = 4, .oc = 6, .groups = 4}), "");
  EXPECT_NE(refuse_conv({.ih = 3, .iw = 3, .ic = 4, .oc = 6, .sh = 0}), "");
  EXPECT_NE(refuse_conv({.ih = 3, .iw = 3, .ic = 4, .oc = 4, .left = -1}), "");
  EXPECT_NE(refuse_conv({.ih = 3, .iw = 3, .ic = 64, .oc = 4, .x_form = XForm::kNchw}), "");
}

}  // namespace
}  // namespace peri::kernels::cpu
