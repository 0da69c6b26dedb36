// Two convolutions strip by strip give the same bits as one after the other, for any block, strip and order of tasks,
// over sizes, strides, paddings, dilations and epilogues; no access out of bounds.
#include "kernels/cpu/conv/pair.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "guarded.hpp"

namespace peri::kernels::cpu {
namespace {

struct Case {
  PairShape shape;
  Epilogue first, second;
};

PairShape shape_of(int64_t n, int64_t size, int64_t in, int64_t channels, int64_t kernel, int64_t stride,
                   int64_t dilation, int64_t pad) {
  PairShape p;
  p.first = {.n = n, .ih = size, .iw = size + 3, .ic = in, .oc = channels};
  p.second = {.n = n, .ih = size, .iw = size + 3, .ic = channels, .oc = channels, .kh = kernel, .kw = kernel};
  p.second.groups = channels;
  p.second.sh = p.second.sw = stride;
  p.second.dh = p.second.dw = dilation;
  p.second.top = p.second.left = pad;
  p.second.bottom = p.second.right = pad;
  return p;
}

std::vector<float> one_after_the_other(const Case& c, const float* x, const float* w1, const float* w2, Isa isa) {
  const auto run = [&](const ConvShape& s, const float* in, const float* w, const Epilogue& e) {
    const ConvPlan plan = plan_conv(s, isa);
    Guarded packed(packed_conv_floats(s, isa)), scratch((plan.scratch_floats + 15) / 16 * 16),
        y(s.n * s.oh() * s.ow() * s.oc);
    pack_conv_weights(w, s, isa, packed.data());
    const ConvArgs args{.x = in, .w = packed.data(), .y = y.data(), .epilogue = e};
    for (int64_t t = 0; t < plan.tasks; ++t) run_task(plan, args, t, scratch.data());
    return std::vector<float>(y.begin(), y.end());
  };
  const std::vector<float> middle = run(c.shape.first, x, w1, c.first);
  return run(c.shape.second, middle.data(), w2, c.second);
}

void check(const Case& c, Isa isa, uint64_t seed) {
  const ConvShape &a = c.shape.first, &b = c.shape.second;
  ASSERT_EQ(refuse_pair(c.shape), "");
  const auto side = seed % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin;
  Guarded x(a.n * a.ih * a.iw * a.ic, side), w1(a.oc * a.ic, side), w2(b.oc * b.kh * b.kw, side),
      y(b.n * b.oh() * b.ow() * b.oc, side);
  x.randomise(seed);
  w1.randomise(seed + 1);
  w2.randomise(seed + 2);
  const std::vector<float> want = one_after_the_other(c, x.data(), w1.data(), w2.data(), isa);
  for (const int64_t block : {16, 32, 64}) {
    for (const int64_t strip : {1, 4 << 10, 1 << 20}) {
      const PairPlan plan = plan_pair(c.shape, block, strip, isa, seed % 3 == 0 ? 16 : 1);
      Guarded packed(packed_pair_floats(c.shape, plan.block, isa)), scratch((plan.scratch_floats + 15) / 16 * 16);
      pack_pair_weights(w1.data(), w2.data(), c.shape, plan.block, isa, packed.data());
      const PairArgs args{.x = x.data(), .w = packed.data(), .y = y.data(), .first = c.first, .second = c.second};
      for (const bool descending : {false, true}) {
        y.fill(std::numeric_limits<float>::quiet_NaN());
        scratch.fill(std::numeric_limits<float>::quiet_NaN());
        for (int64_t t = 0; t < plan.tasks; ++t)
          run_task(plan, args, descending ? plan.tasks - 1 - t : t, scratch.data());
        ASSERT_EQ(std::memcmp(want.data(), y.data(), want.size() * sizeof(float)), 0)
            << isa_name(isa) << " block " << block << " strip " << strip << " rows " << plan.rows << " seed " << seed
            << " descending " << descending;
      }
    }
  }
}

TEST(Pair, SizesStridesPaddingsDilations) {
  for (Isa isa : isas_here()) {
    uint64_t seed = 1;
    for (const int64_t size : {1, 5, 14, 23})
      for (const int64_t channels : {8, 40, 96})
        for (const int64_t kernel : {1, 3, 5})
          for (const int64_t stride : {1, 2})
            for (const int64_t dilation : {1, 2})
              for (const int64_t pad : {int64_t{0}, kernel / 2 * dilation}) {
                const Case c{shape_of(1 + static_cast<int64_t>(seed % 2), size, 3 + static_cast<int64_t>(seed % 20),
                                      channels, kernel, stride, dilation, pad),
                             {},
                             {}};
                if (refuse_pair(c.shape).empty()) check(c, isa, seed++);
              }
    EXPECT_GT(seed, 100u);
  }
}

TEST(Pair, Epilogues) {
  for (Isa isa : isas_here()) {
    Guarded b1(72), b2(72), scale(72);
    b1.randomise(1);
    b2.randomise(2);
    scale.randomise(3);
    Case c{shape_of(2, 14, 24, 72, 3, 1, 1, 1), {}, {}};
    add_bias(c.first, b1.data());
    add_activation(c.first, Activation::kSilu);
    add_bias(c.second, b2.data());
    add_activation(c.second, Activation::kHardSwish);
    add_op(c.second, {.kind = PostKind::kColMul, .data = scale.data()});
    check(c, isa, 5);
  }
}

TEST(Pair, EachThreadHasATaskUnlessTooMuchWereComputedTwice) {
  const PairShape wide = shape_of(1, 48, 64, 64, 3, 1, 1, 1);
  EXPECT_EQ(plan_pair(wide, 64, 1 << 30, Isa::kAvx2, 1).tasks, 1);
  EXPECT_EQ(plan_pair(wide, 64, 1 << 30, Isa::kAvx2, 2).tasks, 2);
  EXPECT_EQ(plan_pair(wide, 32, 1 << 30, Isa::kAvx2, 2).tasks, 2);
  const PairPlan many = plan_pair(wide, 64, 1 << 30, Isa::kAvx2, 16);
  EXPECT_EQ(many.rows, 8);
  EXPECT_EQ(many.tasks, 6);
  EXPECT_EQ(plan_pair(shape_of(4, 48, 64, 64, 3, 1, 1, 1), 64, 1 << 30, Isa::kAvx2, 4).tasks, 4) << "an image each";
}

TEST(Pair, Refusals) {
  PairShape p = shape_of(1, 14, 16, 64, 3, 1, 1, 1);
  EXPECT_EQ(refuse_pair(p), "");
  p.first.kh = p.first.kw = 3;
  EXPECT_EQ(refuse_pair(p), "the first convolution is not pointwise");
  p = shape_of(1, 14, 16, 64, 3, 1, 1, 1);
  p.second.groups = 1;
  EXPECT_EQ(refuse_pair(p), "the second convolution is not depthwise");
  p = shape_of(1, 14, 16, 64, 3, 1, 1, 1);
  p.second.ih = 15;
  EXPECT_EQ(refuse_pair(p), "the second convolution does not read the first");
  EXPECT_EQ(refuse_pair(shape_of(1, 14, 16, 60, 3, 1, 1, 1)), "its channels are not a multiple of 8");
  EXPECT_EQ(refuse_pair(shape_of(1, 14, 16, 64, 3, 1, 1, 3)), "a row of windows that lies in the padding");
}

}  // namespace
}  // namespace peri::kernels::cpu
