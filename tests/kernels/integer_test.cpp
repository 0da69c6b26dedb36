// Products of bytes are exact on every tile: all sizes around its edges, signs of both sides, zero points, the largest
// sums, tasks in any order; nothing outside of the arguments is read or written.
#include "kernels/cpu/integer/channels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "device/target.hpp"
#include "guarded_bytes.hpp"

namespace peri::kernels::cpu::integer {
namespace {

// Of AVX2 too, which offers leave out where there is more.
std::vector<Dot> dots_here() {
  std::vector<Dot> out;
  for (const Dot dot : {Dot::kAvx2, Dot::kVnni, Dot::kAmx})
    if (device::this_cpu().has(dot_isa(dot))) out.push_back(dot);
  return out;
}

struct Case {
  int64_t images = 1, m = 1, n = 1, k = 1;
  bool a_signed = false, b_signed = true, extreme = false;
  int32_t a_zero = 0, b_zero = 0;  // in their own types
  To to = To::kSums;
  double rest = 0;  // of the bias, which is no whole number then
};

struct Sides {
  std::vector<uint8_t> a, b;
};
Sides seeded(const Case& c) {
  std::mt19937 rng(static_cast<uint32_t>(c.m * 7919 + c.n * 31 + c.k));
  Sides s;
  for (int64_t i = 0; i < c.images * c.m * c.k; ++i)
    s.a.push_back(c.extreme ? (c.a_signed ? 0x80 : 0xff) : static_cast<uint8_t>(rng()));
  for (int64_t i = 0; i < c.images * c.k * c.n; ++i)
    s.b.push_back(c.extreme ? (c.b_signed ? 0x80 : 0xff) : static_cast<uint8_t>(rng()));
  return s;
}
int64_t number(uint8_t byte, bool is_signed) { return is_signed ? static_cast<int8_t>(byte) : byte; }

std::vector<int64_t> expected(const Case& c, const Sides& s) {
  std::vector<int64_t> out;
  for (int64_t image = 0; image < c.images; ++image)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < c.k; ++k)
          sum += (number(s.a[static_cast<size_t>((image * c.m + i) * c.k + k)], c.a_signed) - c.a_zero) *
                 (number(s.b[static_cast<size_t>((image * c.k + k) * c.n + j)], c.b_signed) - c.b_zero);
        out.push_back(sum);
      }
  return out;
}

void check(const Case& c, Dot dot, bool descending, Isa isa = *best_isa(device::this_cpu())) {
  SCOPED_TRACE(testing::Message() << dot_name(dot) << " " << c.images << " of " << c.m << "x" << c.n << "x" << c.k
                                  << (c.a_signed ? " s8" : " u8") << (c.b_signed ? "s8" : "u8"));
  const Sides s = seeded(c);
  const tests::GuardedBytes a(c.images * c.m * c.k), y(c.images * c.m * c.n * (c.to == To::kSums ? 4 : 1));
  std::copy(s.a.begin(), s.a.end(), a.as<uint8_t>());
  const int64_t each = (packed_bytes(c.k, c.n) + 63) / 64 * 64;
  std::vector<std::byte> packed(static_cast<size_t>(c.images * each));
  for (int64_t image = 0; image < c.images; ++image)
    pack(s.b.data() + image * c.k * c.n, c.n, !c.b_signed, c.k, c.n, packed.data() + image * each);
  const std::vector<int32_t> b_zero(static_cast<size_t>(c.n), c.b_zero - (c.b_signed ? 0 : 128));
  const std::vector<double> factor(static_cast<size_t>(c.n), 1.0 / 512);
  std::vector<double> bias;  // another one for each column
  std::vector<int32_t> quick_bias;
  std::vector<float> quick_rest;
  for (int64_t j = 0; j < c.n; ++j) {
    const double rest = j % 3 == 1 ? 0 : c.rest;
    quick_bias.push_back(77 + static_cast<int32_t>(j % 5));
    quick_rest.push_back(static_cast<float>(rest / 512));
    bias.push_back(quick_bias.back() + rest);
  }
  const Plan plan = plan_product({c.images, c.m, c.n, c.k, c.a_signed, b_zero[0] != 0, c.to}, dot, isa);
  std::vector<std::byte> scratch(plan.scratch, std::byte{0x5a});
  const auto flipped = [&](int64_t image, int64_t row, int64_t rows, uint8_t* to, int64_t ld) {
    for (int64_t r = 0; r < rows; ++r)
      loops_of(isa).flip(a.as<uint8_t>() + (image * c.m + row + r) * c.k, to + r * ld, c.k);
  };
  Operands with{.make = flipped};
  with.a = a.as<uint8_t>();
  with.a_step = c.m * c.k;
  with.b = packed.data();
  with.b_step = each;
  with.a_zero = c.a_zero + (c.a_signed ? 128 : 0);
  with.b_zero = b_zero.data();
  with.y = y.as<uint8_t>();
  with.ldy = c.n;
  with.y_step = c.m * c.n;
  with.rounding = {.factor = factor.data(), .bias = bias.data(), .zero = 100, .low = 3, .high = 250};
  // Many of these sums lie in the middle of two whole numbers: float32 alone does not round them.
  const std::vector<float> quick_factor(factor.begin(), factor.end());
  if (!descending) {
    with.rounding.quick_factor = quick_factor.data();
    with.rounding.quick_bias = quick_bias.data();
    with.rounding.quick_rest = quick_rest.data();
  }
  for (int64_t t = 0; t < plan.tasks; ++t) run_task(plan, with, descending ? plan.tasks - 1 - t : t, scratch.data());
  const std::vector<int64_t> want = expected(c, s);
  for (size_t p = 0; p < want.size(); ++p) {
    if (c.to == To::kSums) {
      ASSERT_EQ(y.as<int32_t>()[p], static_cast<int32_t>(want[p])) << p;
      continue;
    }
    const double v = std::nearbyint((static_cast<double>(want[p]) + bias[p % bias.size()]) / 512) + 100;
    ASSERT_EQ(y.as<uint8_t>()[p], std::fmin(std::fmax(v, 3), 250)) << p;
  }
}

TEST(IntegerProduct, SizesAroundTheEdgesOfTiles) {
  for (const Dot dot : dots_here())
    for (const int64_t m : {1, 5, 16, 33, 70})
      for (const int64_t n : {1, 16, 50, 130})
        for (const int64_t k : {1, 4, 27, 64, 130})
          check({1, m, n, k, false, true, false, 9, 0}, dot, (m + n) % 2 == 0);
}

TEST(IntegerProduct, SignsAndZeroPoints) {
  for (const Dot dot : dots_here())
    for (const bool a_signed : {false, true})
      for (const bool b_signed : {false, true})
        for (const int32_t b_zero : {0, 5}) {
          check({2, 35, 70, 130, a_signed, b_signed, false, a_signed ? -7 : 130, b_zero}, dot, false);
          check({1, 19, 33, 64, a_signed, b_signed, false, 0, b_zero, To::kU8}, dot, true);
          check({1, 19, 150, 64, a_signed, b_signed, false, 3, b_zero, To::kU8}, Dot::kAvx2, true, Isa::kAvx2);
          check({2, 5, 33, 30, a_signed, b_signed, false, 3, b_zero}, Dot::kAvx2, false, Isa::kAvx2);
        }
}

// A bias that is no whole number of the sums' units.
TEST(IntegerProduct, BiasBetweenUnits) {
  for (const Dot dot : dots_here())
    for (const double rest : {0.5, -0.25, 0.499, 200.5, -100.25})  // the last two: a good part of a byte
      for (const bool descending : {false, true}) {
        check({1, 19, 150, 64, false, true, false, 3, 5, To::kU8, rest}, dot, descending);
        check({1, 19, 150, 64, true, true, false, 3, 0, To::kU8, rest}, Dot::kAvx2, descending, Isa::kAvx2);
      }
}

// Pairs of bytes that 16-bit sums would saturate, and the longest sums that bytes are made of.
TEST(IntegerProduct, LargestSums) {
  for (const Dot dot : dots_here())
    for (const bool a_signed : {false, true})
      for (const bool b_signed : {false, true}) {
        check({1, 3, 17, 32768, a_signed, b_signed, true, 0, 0}, dot, false);
        check({1, 3, 17, 70001, a_signed, b_signed, true, a_signed ? 127 : 0, b_signed ? 127 : 0}, dot, false);
      }
}

// Taps of a channel-wise convolution, the most of them at the largest bytes too, for numbers of channels around
// vectors.
TEST(IntegerProduct, TapsByChannel) {
  std::mt19937 rng(5);
  for (const Isa isa : {Isa::kAvx2, *best_isa(device::this_cpu())})
    for (const int64_t channels : {1, 7, 8, 13, 24, 72, 135})
      for (const bool is_signed : {false, true})
        for (const bool extreme : {false, true}) {
          constexpr int64_t kTaps = 256;
          const tests::GuardedBytes x(kTaps * channels), w(kTaps * channels * 4), y(channels * 4);
          std::vector<const uint8_t*> rows;
          std::vector<int64_t> want(static_cast<size_t>(channels));
          const int64_t zero = extreme ? (is_signed ? 127 : 0) : 5;
          for (int64_t t = 0; t < kTaps; ++t) {
            rows.push_back(t % 5 == 3 ? nullptr : x.as<uint8_t>() + t * channels);
            for (int64_t j = 0; j < channels; ++j) {
              uint8_t& byte = x.as<uint8_t>()[t * channels + j];
              float& factor = w.as<float>()[t * channels + j];
              byte = extreme ? (is_signed ? 0x80 : 0xff) : static_cast<uint8_t>(rng());
              factor = extreme ? 255 : static_cast<float>(rng() % 511) - 255;
              if (rows.back())
                want[static_cast<size_t>(j)] += (number(byte, is_signed) - zero) * static_cast<int64_t>(factor);
            }
          }
          loops_of(isa).taps(
              {rows.data(), w.as<float>(), kTaps, channels, channels, static_cast<float>(zero), is_signed},
              y.as<int32_t>());
          for (int64_t j = 0; j < channels; ++j)
            ASSERT_EQ(y.as<int32_t>()[j], want[static_cast<size_t>(j)]) << channels;
        }
}

// Rows of pixels of a channel-wise convolution with VNNI, for kernels, strides and paddings around its parts of 32
// pixels and 64 channels, with tasks in either order.
void check_channels(const ChannelShape& s, int32_t a_zero, int32_t w_zero, bool descending) {
  SCOPED_TRACE(testing::Message() << s.channels << " channels, " << s.kh << "x" << s.kw << " of " << s.ih << "x"
                                  << s.iw);
  std::mt19937 rng(static_cast<uint32_t>(s.channels * 31 + s.kw));
  const tests::GuardedBytes x(s.n * s.ih * s.iw * s.channels), y(s.n * s.oh * s.ow * s.channels * 4);
  for (int64_t k = 0; k < s.n * s.ih * s.iw * s.channels; ++k) x.as<uint8_t>()[k] = static_cast<uint8_t>(rng());
  std::vector<uint8_t> w(static_cast<size_t>(s.channels * s.kh * s.kw));
  for (uint8_t& byte : w) byte = static_cast<uint8_t>(rng());
  const ChannelPlan plan(s, Isa::kAvx512);
  std::vector<std::byte> packed(static_cast<size_t>(plan.packed_bytes())), scratch(plan.scratch(), std::byte{0x5a});
  plan.pack(w.data(), false, packed.data());
  const std::vector<int32_t> zeros(static_cast<size_t>(s.channels), w_zero);
  Operands with{.make = [](int64_t, int64_t, int64_t, uint8_t*, int64_t) {}};
  with.b = packed.data();
  with.a_zero = a_zero + (s.is_signed ? 128 : 0);
  with.b_zero = zeros.data();
  with.y = y.as<int32_t>();
  with.ldy = s.channels;
  for (int64_t t = 0; t < plan.tasks(); ++t)
    plan.run(with, x.as<uint8_t>(), descending ? plan.tasks() - 1 - t : t, scratch.data());
  for (int64_t p = 0; p < s.n * s.oh * s.ow * s.channels; ++p) {
    const int64_t j = p % s.channels, ox = p / s.channels % s.ow, oy = p / s.channels / s.ow % s.oh,
                  image = p / s.channels / s.ow / s.oh;
    int64_t sum = 0;
    for (int64_t tap = 0; tap < s.kh * s.kw; ++tap) {
      const int64_t iy = oy * s.sh - s.top + tap / s.kw * s.dh, ix = ox * s.sw - s.left + tap % s.kw * s.dw;
      if (iy < 0 || iy >= s.ih || ix < 0 || ix >= s.iw) continue;
      const uint8_t byte = x.as<uint8_t>()[((image * s.ih + iy) * s.iw + ix) * s.channels + j];
      sum +=
          (number(byte, s.is_signed) - a_zero) * (number(w[static_cast<size_t>(j * s.kh * s.kw + tap)], true) - w_zero);
    }
    ASSERT_EQ(y.as<int32_t>()[p], sum) << p;
  }
}

TEST(IntegerProduct, ChannelsByRowsOfPixels) {
  if (!device::this_cpu().has(dot_isa(Dot::kVnni))) GTEST_SKIP() << "no VNNI here";
  for (const int64_t channels : {1, 16, 70, 130})
    for (const bool is_signed : {false, true})
      for (const int32_t w_zero : {0, -9}) {
        ChannelShape s{1, channels, 5, 37, 5, 37, 3, 3, 1, 1, 1, 1, 1, 1, is_signed, w_zero != 0};
        check_channels(s, is_signed ? -7 : 200, w_zero, false);
        s = {2, channels, 9, 8, 5, 4, 5, 5, 2, 2, 1, 1, 2, 2, is_signed, w_zero != 0};
        check_channels(s, 3, w_zero, true);
        s = {1, channels, 9, 70, 5, 66, 5, 2, 1, 1, 1, 4, 0, 0, is_signed, w_zero != 0};
        check_channels(s, 3, w_zero, true);
      }
}

TEST(IntegerProduct, ConfigurationsNameATileOfTheTarget) {
  device::Target target = device::this_cpu();
  target.isas = {"avx2"};
  EXPECT_EQ(dots_of(target)->size(), 1u);
  EXPECT_EQ(*read_dot("dot=avx2", target), Dot::kAvx2);
  EXPECT_FALSE(read_dot("dot=vnni", target).ok());
  EXPECT_FALSE(read_dot("", target).ok());
  target.isas = {"avx2", "avx512", "avx512_vnni"};
  EXPECT_EQ(*dots_of(target), std::vector<Dot>{Dot::kVnni});
  target.isas.clear();
  EXPECT_EQ(dots_of(target).error().kind, ErrorKind::kRefused);
}

}  // namespace
}  // namespace peri::kernels::cpu::integer
