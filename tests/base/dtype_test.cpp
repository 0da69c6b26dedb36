// Small floats: every code of six and four bits comes back from its value, and stands packed without gaps in a tensor.
#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/tensor.hpp"

namespace peri {
namespace {

TEST(DTypes, SixBitCodesAndTheirValues) {
  // OCP Microscaling Formats 1.0, section 5.3.2: largest 7.5 and 28, least subnormal 2^-3 and 2^-4.
  EXPECT_EQ(f6_to_f32(DType::kF6E2M3, 0x1f), 7.5f);
  EXPECT_EQ(f6_to_f32(DType::kF6E3M2, 0x1f), 28.0f);
  EXPECT_EQ(f6_to_f32(DType::kF6E2M3, 0x01), 0.125f);
  EXPECT_EQ(f6_to_f32(DType::kF6E3M2, 0x01), 0.0625f);
  EXPECT_EQ(f6_to_f32(DType::kF6E2M3, 0x08), 1.0f);
  EXPECT_EQ(f6_to_f32(DType::kF6E3M2, 0x2c), -1.0f);
  for (const DType t : {DType::kF6E2M3, DType::kF6E3M2}) {
    for (int code = 0; code < 64; ++code)
      EXPECT_EQ(f32_to_f6(t, f6_to_f32(t, static_cast<uint8_t>(code))), code) << dtype_name(t);
    const float largest = f6_to_f32(t, 0x1f);
    EXPECT_EQ(f32_to_f6(t, 1e9f), 0x1f);
    EXPECT_EQ(f32_to_f6(t, -INFINITY), 0x3f);
    EXPECT_EQ(f6_to_f32(t, f32_to_f6(t, NAN)), largest);
    EXPECT_EQ(round_to(t, 1.0 + 0.4 * unit_roundoff(t)), 1.0);
  }
}

// By the definition of IEEE 754 binary16: all codes, and numbers at, beside and between neighbours.
TEST(DTypes, HalvesAreWhatTheirBitsSay) {
  const auto value = [](int code) {
    const int e = code >> 10 & 31, m = code & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : std::ldexp(e ? 1024 + m : m, std::max(e, 1) - 25);
    return code & 0x8000 ? -v : v;
  };
  for (int code = 0; code < 0x10000; ++code) {
    const double v = value(code);
    const float got = f16_to_f32(static_cast<uint16_t>(code));
    ASSERT_TRUE(std::isnan(v) ? std::isnan(got) : got == v) << code;
    ASSERT_EQ(std::signbit(got), (code & 0x8000) != 0) << code;
    if (std::isnan(v)) continue;
    ASSERT_EQ(f32_to_f16(got), code);
    if ((code & 0x7fff) >= 0x7bff) continue;
    const double next = value(code + 1), middle = (v + next) / 2;
    const int even = code & 1 ? code + 1 : code;
    const auto above = static_cast<float>(middle + (next - v) / 64),
               below = static_cast<float>(middle - (next - v) / 64);
    ASSERT_EQ(f32_to_f16(static_cast<float>(middle)), even) << code;
    ASSERT_EQ(f32_to_f16(above), code + 1);
    ASSERT_EQ(f32_to_f16(below), code);
    ASSERT_EQ(round_to(DType::kF16, middle), value(even)) << code;
    ASSERT_EQ(round_to(DType::kF16, middle + (next - v) / 1e9), next) << code << ": rounded once, not by way of float";
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(NAN))));
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0) << "a tie with zero";
  EXPECT_EQ(f32_to_f16(0x1.1p-25f), 1);
  EXPECT_EQ(f32_to_f16(1e-40f), 0);
  EXPECT_EQ(round_to(DType::kF16, 65519.99999), 65504);
  EXPECT_EQ(round_to(DType::kF16, 65520), INFINITY);
  EXPECT_EQ(round_to(DType::kBF16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round_to(DType::kBF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(round_to(DType::kBF16, 0x1.ffp127), INFINITY);
}

TEST(DTypes, SixBitTensorsHaveNoGaps) {
  for (const DType t : {DType::kF6E2M3, DType::kF6E3M2}) {
    Tensor a = Tensor::zeros(t, {9}).value();
    EXPECT_EQ(a.bytes().size(), 7u);  // 54 bits
    for (int64_t k = 0; k < 9; ++k) a.set_f64(k, f6_to_f32(t, static_cast<uint8_t>(7 * k % 64)));
    for (int64_t k = 0; k < 9; ++k) EXPECT_EQ(a.f64(k), f6_to_f32(t, static_cast<uint8_t>(7 * k % 64))) << k;
    a.set_f64(4, 0);
    EXPECT_EQ(a.f64(3), f6_to_f32(t, 21));
    EXPECT_EQ(a.f64(4), 0);
    EXPECT_EQ(a.f64(5), f6_to_f32(t, 35));
    // Low bits first: element 0 is 0, element 1 is 7, so byte 0 holds the two low bits of 7 above six zeros.
    EXPECT_EQ(static_cast<int>(a.bytes()[0]), 7 << 6 & 255);
    EXPECT_EQ(static_cast<int>(a.bytes()[1]) & 15, 7 >> 2);
  }
}

}  // namespace
}  // namespace peri
