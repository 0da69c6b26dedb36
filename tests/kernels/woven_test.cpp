// Thin transposed convolutions against the definition in float64: each way of weaving rows, cuts, phases without taps,
// blocks of rows; no access out of bounds; the same bits for any order of tasks.
#include "kernels/cpu/conv/woven.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "guarded.hpp"

namespace peri::kernels::cpu::conv {
namespace {

// Scatter, as the operator is defined, of planes: value and bound of every output.
std::vector<Bounded> reference(const TransposedShape& s, const float* x, const float* w, const float* bias) {
  const int64_t oh = s.oh(), ow = s.ow(), channels = s.ic / s.groups, outs = s.oc / s.groups, taps = s.kh * s.kw;
  std::vector<Bounded> y(static_cast<size_t>(s.n * s.oc * oh * ow), {0, 0});
  for (size_t i = 0; i < y.size(); ++i) y[i].value = bias ? bias[static_cast<int64_t>(i) / (oh * ow) % s.oc] : 0;
  for (Bounded& v : y) v.radius = 0x1p-24 * std::abs(v.value) * static_cast<double>(channels * taps);
  for (int64_t p = 0; p < s.n * s.ic * s.ih * s.iw; ++p)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t ix = p % s.iw, iy = p / s.iw % s.ih, c = p / s.iw / s.ih % s.ic, image = p / s.iw / s.ih / s.ic;
      const int64_t oy = iy * s.sh - s.top + tap / s.kw * s.dh, ox = ix * s.sw - s.left + tap % s.kw * s.dw;
      if (oy < 0 || oy >= oh || ox < 0 || ox >= ow) continue;
      for (int64_t o = 0; o < outs; ++o) {
        const double term = double{x[p]} * w[(c * outs + o) * taps + tap];
        Bounded& at = y[static_cast<size_t>(((image * s.oc + c / channels * outs + o) * oh + oy) * ow + ox)];
        at.value += term;
        at.radius += 4 * std::sqrt(static_cast<double>(channels * taps)) * 0x1p-24 * std::abs(term);
      }
    }
  return y;
}

void run_all(const WovenPlan& plan, const WovenArgs& args, bool descending) {
  Guarded scratch((plan.scratch_floats + 15) / 16 * 16);  // 64-byte aligned
  for (int64_t t = 0; t < plan.tasks; ++t) {
    scratch.fill(std::numeric_limits<float>::quiet_NaN());
    run_task(plan, args, descending ? plan.tasks - 1 - t : t, scratch.data());
  }
}

void check(const TransposedShape& s, Isa isa, uint64_t seed) {
  ASSERT_EQ(refuse_woven(s), "");
  const auto side = seed % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin;
  const int64_t weights = s.ic * (s.oc / s.groups) * s.kh * s.kw;
  Guarded x(s.n * s.ih * s.iw * s.ic, side), w(weights, side), bias(s.oc, side);
  Guarded y(s.n * s.oc * s.oh() * s.ow(), side), packed(weights, side);
  x.randomise(seed);
  w.randomise(seed + 1);
  bias.randomise(seed + 2);
  y.fill(std::numeric_limits<float>::quiet_NaN());
  pack_woven_weights(w.data(), s, packed.data());
  const WovenPlan plan = plan_woven(s, isa);
  const WovenArgs args{x.data(), packed.data(), seed % 3 ? bias.data() : nullptr, y.data()};
  run_all(plan, args, false);
  const std::vector<Bounded> want = reference(s, x.data(), w.data(), args.bias);
  int wrong = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const Bounded& v = want[static_cast<size_t>(i)];
    if (!(std::abs(y[i] - v.value) <= v.radius) && ++wrong <= 3)
      ADD_FAILURE() << isa_name(isa) << " seed=" << seed << " at " << i << ": " << y[i] << " want " << v.value << " +- "
                    << v.radius;
  }
  std::vector<float> out(y.begin(), y.end());
  run_all(plan, args, true);
  EXPECT_EQ(std::memcmp(out.data(), y.data(), out.size() * sizeof(float)), 0) << "order of tasks, seed=" << seed;
}

TEST(Woven, StridesDilationsCuts) {
  for (Isa isa : isas_here()) {
    uint64_t seed = 1;
    for (int64_t kernel : {1, 2, 4, 5})
      for (int64_t stride : {1, 2, 3, 4, 8})
        for (int64_t dilation : {1, 2, 3}) {
          TransposedShape s{.n = 2, .ih = 5, .iw = 19, .ic = 6, .oc = 12, .kh = kernel, .kw = kernel};
          s.sh = s.sw = stride;
          s.dh = s.dw = dilation;
          check(s, isa, seed++);
          s.top = s.right = kernel / 2;
          s.left = kernel / 3;
          s.extra_h = stride - 1;
          s.extra_w = stride / 2;
          check(s, isa, seed++);
          s.groups = 2;
          check(s, isa, seed++);
          s.groups = 6;
          check(s, isa, seed++);
        }
  }
}

TEST(Woven, Sizes) {
  const TransposedShape shapes[] = {
      {.ih = 33, .iw = 150, .ic = 2, .oc = 2, .kh = 4, .kw = 4, .sh = 2, .sw = 2, .top = 9, .left = 7, .groups = 2},
      {.ih = 64, .iw = 64, .ic = 2, .oc = 2, .kh = 16, .kw = 16, .sh = 8, .sw = 8, .groups = 2},
      {.ih = 90, .iw = 90, .ic = 100, .oc = 9, .kh = 2, .kw = 3, .sh = 2, .sw = 2},  // blocks of rows
      {.n = 3, .ih = 1, .iw = 900, .ic = 3, .oc = 5, .kh = 1, .kw = 7, .sw = 4},
      {.n = 2, .ih = 1, .iw = 20000, .ic = 8, .oc = 6, .kh = 1, .kw = 9, .sw = 4, .left = 3},  // blocks of columns
      {.ih = 2, .iw = 3000, .ic = 30, .oc = 5, .kh = 5, .kw = 4, .sw = 3, .top = 1, .right = 2},
      {.ih = 7, .iw = 1, .ic = 2, .oc = 3, .kh = 3, .kw = 2, .sh = 5, .sw = 8},  // fewer columns than phases
      {.ih = 3, .iw = 4, .ic = 2, .oc = 3, .kh = 2, .kw = 2, .sh = 20, .sw = 33, .extra_h = 18, .extra_w = 31},
      {.ih = 5, .iw = 5, .ic = 4, .oc = 4, .kh = 2, .kw = 2, .dh = 7, .dw = 40, .top = 6, .right = 30, .groups = 2},
  };
  for (Isa isa : isas_here()) {
    uint64_t seed = 1;
    for (const TransposedShape& s : shapes) check(s, isa, seed++);
  }
}

TEST(Woven, RefusesWhatIsFasterOrFitsElsewhere) {
  EXPECT_NE(refuse_woven({.ih = 9, .iw = 9, .ic = 64, .oc = 64, .kh = 4, .kw = 4}), "");
  EXPECT_NE(refuse_woven({.ih = 9, .iw = 9, .ic = 200, .oc = 1, .kh = 4, .kw = 4}), "");
  EXPECT_NE(refuse_woven({.ih = 9, .iw = 9, .ic = 1, .oc = 1, .kh = 2, .kw = 2, .sh = 2, .sw = 2, .dw = 1 << 21}), "");
  EXPECT_EQ(refuse_woven({.ih = 9, .iw = 1 << 21, .ic = 1, .oc = 1, .kh = 2, .kw = 2, .sh = 2, .sw = 2}), "");
  EXPECT_EQ(refuse_woven({.ih = 9, .iw = 9, .ic = 64, .oc = 64, .kh = 4, .kw = 4, .groups = 4}), "");
}

}  // namespace
}  // namespace peri::kernels::cpu::conv
