// Pooling and resize against direct loops in double, both layouts, with guard pages and any order of tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cpu/pool/resize.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::pool {
namespace {

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (runs_here(isa)) list.push_back(isa);
  }
  return list;
}

int64_t place(Layout layout, int64_t n, int64_t c, int64_t h, int64_t w, int64_t channels, int64_t height,
              int64_t width) {
  return layout == Layout::kNchw ? ((n * channels + c) * height + h) * width + w
                                 : ((n * height + h) * width + w) * channels + c;
}

template <class Plan>
void run_all(const Plan& plan, const Args& args) {
  for (int64_t t = task_count(plan); t-- > 0;) {
    const Guarded scratch(scratch_bytes(plan) / 4);
    scratch.fill(std::numeric_limits<float>::quiet_NaN());
    run_task(plan, args, t, scratch.data());
  }
}

void check_pool(const Shape& s, Isa isa, bool with_nan) {
  const auto plan = make_plan(s, isa);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  const Guarded x(s.batch * s.channels * s.h.in * s.w.in), y(s.batch * s.channels * s.h.out * s.w.out);
  x.randomise(3, 5);
  if (with_nan) x[x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  run_all(*plan, Args{x.data(), y.data()});
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t p = 0; p < s.h.out; ++p) {
        for (int64_t o = 0; o < s.w.out; ++o) {
          double most = -INFINITY, sum = 0;
          int64_t taps = 0, padded = 0;
          bool nan = false;
          for (int64_t i = 0; i < s.h.kernel; ++i) {
            for (int64_t j = 0; j < s.w.kernel; ++j) {
              const int64_t h = p * s.h.stride - s.h.pad_begin + i * s.h.dilation,
                            w = o * s.w.stride - s.w.pad_begin + j * s.w.dilation;
              padded += h < s.h.in + s.h.pad_end && w < s.w.in + s.w.pad_end;
              if (h < 0 || w < 0 || h >= s.h.in || w >= s.w.in) continue;
              const double v = static_cast<double>(x[place(s.layout, n, c, h, w, s.channels, s.h.in, s.w.in)]);
              nan |= std::isnan(v);
              most = std::max(most, v);
              sum += v;
              ++taps;
            }
          }
          const double divisor = static_cast<double>(std::max<int64_t>(s.count_include_pad ? padded : taps, 1));
          if (taps == 0) most = static_cast<double>(std::numeric_limits<float>::lowest());
          const double want = nan ? NAN : s.kind == Kind::kMax ? most : sum / divisor;
          const double got = static_cast<double>(y[place(s.layout, n, c, p, o, s.channels, s.h.out, s.w.out)]);
          ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)) ||
                      (s.kind == Kind::kAverage && std::abs(got - want) <= 4e-6))
              << n << " " << c << " " << p << " " << o << ": " << got << ", not " << want;
        }
      }
    }
  }
}

TEST(PoolTest, KernelsStridesPadsAndDilations) {
  const Extent extents[] = {{7, 7, 1, 1, 1, 0, 0},
                            {8, 4, 2, 2, 1, 0, 0},
                            {11, 6, 3, 2, 1, 1, 1},
                            {9, 5, 3, 2, 1, 1, 0},
                            {10, 6, 3, 1, 2, 0, 0},
                            {5, 7, 3, 1, 1, 2, 2},
                            {6, 4, 3, 2, 1, 0, 0} /* ceil_mode */,
                            {3, 3, 5, 1, 1, 2, 2},
                            {4, 6, 2, 1, 1, 2, 1},
                            {41, 21, 3, 2, 1, 1, 1},
                            {70, 71, 2, 1, 1, 1, 1}};
  for (Isa isa : isas()) {
    for (const Kind kind : {Kind::kMax, Kind::kAverage}) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        for (const Extent& h : extents) {
          for (const Extent& w : extents) {
            for (const bool include : {false, true}) {
              for (const int64_t channels : {1, 5, 70}) {
                if (channels == 70 && (&h != &extents[2] || layout == Layout::kNchw)) continue;
                check_pool({kind, layout, include, 2, channels, h, w}, isa, include);
              }
            }
          }
        }
      }
    }
  }
}

TEST(PoolTest, BadShapesAreRefused) {
  const auto refused = [](auto change) {
    Shape s;
    s.h = s.w = {8, 4, 2, 2, 1, 0, 0};
    change(&s);
    return !make_plan(s, Isa::kAvx2).ok();
  };
  EXPECT_FALSE(refused([](Shape*) {}));
  EXPECT_TRUE(refused([](Shape* s) { s->h.stride = 0; }));
  EXPECT_TRUE(refused([](Shape* s) { s->h.kernel = 0; }));
  EXPECT_TRUE(refused([](Shape* s) { s->w.dilation = -1; }));
  EXPECT_TRUE(refused([](Shape* s) { s->w.pad_begin = -1; }));
  EXPECT_TRUE(refused([](Shape* s) { s->batch = -1; }));
  EXPECT_TRUE(refused([](Shape* s) { s->h.in = int64_t{1} << 31, s->w.in = int64_t{1} << 31; }));
}

void check_resize(const ResizeShape& s, Isa isa) {
  const auto plan = make_plan(s, isa);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  const int64_t out_h = static_cast<int64_t>(s.h.index.size()), out_w = static_cast<int64_t>(s.w.index.size());
  const Guarded x(s.batch * s.channels * s.in_h * s.in_w), y(s.batch * s.channels * out_h * out_w);
  x.randomise(3, 5);
  run_all(*plan, Args{x.data(), y.data()});
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t p = 0; p < out_h; ++p) {
        for (int64_t o = 0; o < out_w; ++o) {
          const size_t a = static_cast<size_t>(p), b = static_cast<size_t>(o);
          const auto at = [&](int64_t h, int64_t w) {
            return static_cast<double>(x[place(s.layout, n, c, h, w, s.channels, s.in_h, s.in_w)]);
          };
          const double u = static_cast<double>(s.h.t[a]), v = static_cast<double>(s.w.t[b]);
          const double top = at(s.h.index[a], s.w.index[b]) * (1 - v) + at(s.h.index[a], s.w.next[b]) * v;
          const double low = at(s.h.next[a], s.w.index[b]) * (1 - v) + at(s.h.next[a], s.w.next[b]) * v;
          const double got = static_cast<double>(y[place(s.layout, n, c, p, o, s.channels, out_h, out_w)]);
          ASSERT_NEAR(got, top * (1 - u) + low * u, 4e-6);
        }
      }
    }
  }
}

TEST(ResizeTest, BothLayoutsAndAllConventions) {
  for (Isa isa : isas()) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      for (const auto c : {Coordinates::kHalfPixel, Coordinates::kPytorchHalfPixel, Coordinates::kAlignCorners,
                           Coordinates::kAsymmetric}) {
        for (const auto& [in, out] : {std::pair<int64_t, int64_t>{5, 10}, {8, 3}, {4, 1}, {7, 7}, {33, 64}}) {
          const double scale = static_cast<double>(out) / static_cast<double>(in);
          for (const int64_t channels : {1, 3, 40}) {
            check_resize({layout, 2, channels, in, 6, linear_taps(in, out, scale, c), linear_taps(6, 15, 2.5, c)}, isa);
            for (const auto m :
                 {Nearest::kRoundPreferFloor, Nearest::kRoundPreferCeil, Nearest::kFloor, Nearest::kCeil})
              check_resize(
                  {layout, 1, channels, in, 6, nearest_taps(in, out, scale, c, m), nearest_taps(6, 15, 2.5, c, m)},
                  isa);
          }
        }
      }
    }
  }
}

TEST(ResizeTest, TapsFollowTheDefinition) {
  // ONNX's own example: [1, 2, 3, 4] to 8, half_pixel: 1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4.
  const Taps t = linear_taps(4, 8, 2, Coordinates::kHalfPixel);
  const double want[] = {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4};
  for (size_t i = 0; i < 8; ++i)
    EXPECT_DOUBLE_EQ(
        (t.index[i] + 1) * (1 - static_cast<double>(t.t[i])) + (t.next[i] + 1) * static_cast<double>(t.t[i]), want[i]);
  EXPECT_EQ(nearest_taps(4, 2, 0.5, Coordinates::kHalfPixel, Nearest::kRoundPreferFloor).index,
            (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(nearest_taps(4, 2, 0.5, Coordinates::kHalfPixel, Nearest::kRoundPreferCeil).index,
            (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(linear_taps(4, 7, 1.75, Coordinates::kAlignCorners).index, (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3}));
  // Corners of the width that the scale says, 4 * 0.6 = 2.4, of which two elements are made.
  const Taps corners = linear_taps(4, 2, 0.6, Coordinates::kAlignCorners);
  EXPECT_EQ(corners.index, (std::vector<int32_t>{0, 2}));
  EXPECT_NEAR(corners.t[1], 3 / 1.4 - 2, 1e-6);
  ResizeShape bad{Layout::kNchw, 1, 1, 4, 4, t, t};
  EXPECT_TRUE(make_plan(bad, Isa::kAvx2).ok());
  bad.h.index[0] = 4;
  EXPECT_FALSE(make_plan(bad, Isa::kAvx2).ok());
  bad.h.index[0] = -1;
  EXPECT_FALSE(make_plan(bad, Isa::kAvx2).ok());
}

}  // namespace
}  // namespace peri::kernels::cpu::pool
