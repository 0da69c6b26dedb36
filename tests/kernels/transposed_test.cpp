// Transposed convolution against float64 sums over strides, dilations, cuts, output padding, groups and epilogues; no
// access out of bounds; the same bits for any order of tasks.
#include "kernels/cpu/conv/transposed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "guarded.hpp"

namespace peri::kernels::cpu {
namespace {

// Scatter, as the operator is defined: value and bound of every output.
std::vector<Bounded> reference(const TransposedShape& s, const float* x, const float* w) {
  const int64_t oh = s.oh(), ow = s.ow(), channels = s.ic / s.groups, ocg = s.oc / s.groups;
  std::vector<Bounded> y(static_cast<size_t>(s.n * oh * ow * s.oc), {0, 0});
  for (int64_t p = 0; p < s.n * s.ih * s.iw; ++p) {
    const int64_t ix = p % s.iw, iy = p / s.iw % s.ih, image = p / s.iw / s.ih;
    for (int64_t tap = 0; tap < s.kh * s.kw; ++tap) {
      const int64_t oy = iy * s.sh - s.top + tap / s.kw * s.dh, ox = ix * s.sw - s.left + tap % s.kw * s.dw;
      if (oy < 0 || oy >= oh || ox < 0 || ox >= ow) continue;
      for (int64_t c = 0; c < s.ic; ++c) {
        for (int64_t o = 0; o < ocg; ++o) {
          const double term = double{x[p * s.ic + c]} * w[(c * ocg + o) * s.kh * s.kw + tap];
          Bounded& at = y[static_cast<size_t>(((image * oh + oy) * ow + ox) * s.oc + c / channels * ocg + o)];
          at.value += term;
          at.radius += 4 * std::sqrt(static_cast<double>(channels * s.kh * s.kw)) * 0x1p-24 * std::abs(term);
        }
      }
    }
  }
  return y;
}

void run_all(const TransposedPlan& plan, const ConvArgs& args, bool descending) {
  Guarded scratch((plan.scratch_floats + 15) / 16 * 16);  // 64-byte aligned
  scratch.fill(std::numeric_limits<float>::quiet_NaN());
  for (int64_t t = 0; t < plan.tasks; ++t) run_task(plan, args, descending ? plan.tasks - 1 - t : t, scratch.data());
}

void check(const TransposedShape& s, Isa isa, uint64_t seed, const Epilogue& epilogue = {}) {
  ASSERT_EQ(refuse_transposed(s, epilogue), "");
  const int64_t pixels = s.n * s.oh() * s.ow();
  const auto side = seed % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin;
  Guarded x(s.n * s.ih * s.iw * s.ic, side), w(s.ic * (s.oc / s.groups) * s.kh * s.kw, side);
  Guarded y(pixels * s.oc, side), packed(packed_transposed_floats(s, isa), side);
  x.randomise(seed);
  w.randomise(seed + 1);
  y.fill(std::numeric_limits<float>::quiet_NaN());
  pack_transposed_weights(w.data(), s, isa, packed.data());
  const TransposedPlan plan = plan_transposed(s, isa);
  const ConvArgs args{.x = x.data(), .w = packed.data(), .y = y.data(), .epilogue = epilogue};
  run_all(plan, args, false);
  const std::vector<Bounded> want = reference(s, x.data(), w.data());
  int wrong = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const Bounded v = finish(epilogue, want[static_cast<size_t>(i)], i / s.oc, i % s.oc);
    if (!(std::abs(y[i] - v.value) <= v.radius) && ++wrong <= 3) {
      ADD_FAILURE() << isa_name(isa) << " seed=" << seed << " at " << i << ": " << y[i] << " want " << v.value << " +- "
                    << v.radius;
    }
  }
  std::vector<float> out(y.begin(), y.end());
  run_all(plan, args, true);
  EXPECT_EQ(std::memcmp(out.data(), y.data(), out.size() * sizeof(float)), 0) << "order of tasks, seed=" << seed;
}

TEST(Transposed, StridesDilationsCuts) {
  for (Isa isa : isas_here()) {
    uint64_t seed = 1;
    for (int64_t kernel : {1, 2, 3, 4}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t dilation : {1, 2, 3}) {
          TransposedShape s{.n = 2, .ih = 5, .iw = 6, .ic = 8, .oc = 19, .kh = kernel, .kw = kernel};
          s.sh = stride;
          s.sw = stride;
          s.dh = dilation;
          s.dw = dilation;
          check(s, isa, seed++);
          s.top = s.right = kernel / 2;
          s.left = kernel / 3;
          s.extra_h = stride - 1;
          s.extra_w = stride / 2;
          check(s, isa, seed++);
          s.groups = 2;
          s.oc = 20;
          check(s, isa, seed++);
        }
      }
    }
    check({.ih = 20, .iw = 30, .ic = 40, .oc = 70, .kh = 2, .kw = 2, .sh = 2, .sw = 2}, isa, seed++);
    check({.ih = 1, .iw = 40, .ic = 3, .oc = 5, .kh = 1, .kw = 5, .sw = 3}, isa, seed++);
  }
}

TEST(Transposed, Epilogue) {
  for (Isa isa : isas_here()) {
    const TransposedShape s{.n = 2, .ih = 3, .iw = 7, .ic = 5, .oc = 18, .kh = 3, .kw = 3, .sh = 2, .sw = 2, .top = 1};
    const int64_t pixels = s.n * s.oh() * s.ow(), ld = 21;
    Guarded bias(18), residual(pixels * ld);
    bias.randomise(1);
    residual.randomise(2);
    Epilogue e;
    add_bias(e, bias.data());
    add_residual(e, residual.data(), ld);
    add_activation(e, Activation::kSilu);
    add_op(e, {.kind = PostKind::kMul, .data = residual.data(), .ld = ld});
    check(s, isa, 3, e);
    add_op(e, {.kind = PostKind::kRowMul, .data = bias.data()});
    EXPECT_NE(refuse_transposed(s, e), "");
  }
}

}  // namespace
}  // namespace peri::kernels::cpu
