// Numbers into bytes and words: each is that of the correctly rounded quotient, ties to the even one, whatever the
// scale; ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.hpp"
#include "kernels/cpu/quantize/loops.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::quantize {
namespace {

std::vector<const Loops*> all_loops() {
  std::vector<const Loops*> out;
  if (runs_here(Isa::kAvx2)) out.push_back(&avx2::kLoops);
  if (runs_here(Isa::kAvx512)) out.push_back(&avx512::kLoops);
  return out;
}

template <class Q>
Q integer_of(float x, float scale, int zero) {
  if (std::isnan(x)) return 0;
  const float low = std::numeric_limits<Q>::min(), high = std::numeric_limits<Q>::max();
  return static_cast<Q>(std::clamp(std::nearbyint(x / scale) + static_cast<float>(zero), low, high));
}

// Numbers at and beside each border between two integers of those up to `most`, far away, and none.
std::vector<float> numbers(float scale, int most, Rng& rng) {
  std::vector<float> out = {0.0F, -0.0F, std::nanf(""), INFINITY, -INFINITY, 3e38F, -3e38F, 1e-45F, -1e-40F};
  for (int k = -most; k <= most; k += k < -300 || k >= 300 ? 97 : 1) {
    const float border = (static_cast<float>(k) + 0.5F) * scale;
    float below = border, above = border;
    out.push_back(border);
    for (int step = 0; step < 3; ++step) {
      out.push_back(below = std::nextafterf(below, -INFINITY));
      out.push_back(above = std::nextafterf(above, INFINITY));
    }
  }
  for (int k = 0; k < 2001; ++k) out.push_back(static_cast<float>((2 * rng.uniform() - 1) * 1.3 * most) * scale);
  return out;
}

TEST(Quantize, AnIntegersBorderIsThatOfTheQuotient) {
  Rng rng(11);
  std::vector<float> scales = {1.0F,          0.5F,   0.02F, 1.0F / 255.0F, 0x1.fffffep-3F,
                               0x1.fffffcp2F, 1e-30F, 1e30F, 1e-40F,        3e38F};
  for (int k = 0; k < 300; ++k) scales.push_back(static_cast<float>(std::exp(20 * (rng.uniform() - 0.5))));
  for (const Loops* loops : all_loops())
    for (const float scale : scales) {
      const std::vector<float> x = numbers(scale, 70000, rng);
      const auto n = static_cast<int64_t>(x.size());
      const auto u = static_cast<uint8_t>(rng.below(256));
      const auto s = static_cast<int8_t>(rng.below(256) - 128);
      const auto w = static_cast<uint16_t>(rng.below(65536));
      const auto h = static_cast<int16_t>(rng.below(65536) - 32768);
      std::vector<uint8_t> y(x.size());
      std::vector<int8_t> z(x.size());
      std::vector<uint16_t> y16(x.size());
      std::vector<int16_t> z16(x.size());
      loops->to_u8(x.data(), &scale, &u, 0, y.data(), n);
      loops->to_i8(x.data(), &scale, &s, 0, z.data(), n);
      loops->to_u16(x.data(), &scale, &w, 0, y16.data(), n);
      loops->to_i16(x.data(), &scale, &h, 0, z16.data(), n);
      for (size_t k = 0; k < x.size(); ++k) {
        ASSERT_EQ(y16[k], integer_of<uint16_t>(x[k], scale, w)) << x[k] << " by " << scale << " and " << int{w};
        ASSERT_EQ(z16[k], integer_of<int16_t>(x[k], scale, h)) << x[k] << " by " << scale << " and " << int{h};
        ASSERT_EQ(y[k], integer_of<uint8_t>(x[k], scale, u)) << x[k] << " by " << scale << " and " << int{u};
        ASSERT_EQ(z[k], integer_of<int8_t>(x[k], scale, s)) << x[k] << " by " << scale << " and " << int{s};
      }
    }
}

// Scales and zero points of their own, at lengths that fill vectors and do not.
TEST(Quantize, EachElementByItsOwnScale) {
  Rng rng(13);
  for (const Loops* loops : all_loops())
    for (const int64_t n : {1, 7, 16, 40, 1000})
      for (const bool moved : {false, true}) {
        std::vector<float> x, scale;
        std::vector<uint8_t> zero;
        std::vector<int16_t> wide;
        for (int64_t k = 0; k < n; ++k) {
          const float special[] = {std::nanf(""), INFINITY, -INFINITY, 3e38F, 0.0F};
          scale.push_back(rng.below(9) == 0 ? 1e-40F : static_cast<float>(std::exp(9 * (rng.uniform() - 0.5))));
          x.push_back(rng.below(5) == 0 ? special[rng.below(5)]
                                        : (static_cast<float>(rng.below(700) - 350) + 0.5F) * scale.back());
          zero.push_back(static_cast<uint8_t>(rng.below(256)));
          wide.push_back(static_cast<int16_t>(rng.below(65536) - 32768));
        }
        std::vector<uint8_t> y(x.size());
        std::vector<int16_t> z(x.size());
        loops->to_u8(x.data(), scale.data(), moved ? zero.data() : nullptr, 1, y.data(), n);
        loops->to_i16(x.data(), scale.data(), moved ? wide.data() : nullptr, 1, z.data(), n);
        for (size_t k = 0; k < x.size(); ++k) {
          ASSERT_EQ(y[k], integer_of<uint8_t>(x[k], scale[k], moved ? zero[k] : 0)) << x[k] << " by " << scale[k];
          ASSERT_EQ(z[k], integer_of<int16_t>(x[k], scale[k], moved ? wide[k] : 0)) << x[k] << " by " << scale[k];
        }
      }
}

TEST(Quantize, RangesPassOverNan) {
  Rng rng(5);
  for (const Loops* loops : all_loops())
    for (const int64_t n : {1, 7, 16, 64, 65, 1000}) {
      std::vector<float> x;
      float least = 0, most = 0;
      for (int64_t k = 0; k < n; ++k) {
        const bool none = rng.below(4) == 0;
        x.push_back(none ? std::nanf("") : static_cast<float>(10 * rng.uniform() - 3));
        if (none) continue;
        least = std::min(least, x.back());
        most = std::max(most, x.back());
      }
      float low = 9, high = -9;
      loops->range(x.data(), n, &low, &high);
      EXPECT_EQ(low, least) << n;
      EXPECT_EQ(high, most) << n;
    }
}

}  // namespace
}  // namespace peri::kernels::cpu::quantize
