// Small floats: every code of six and four bits comes back from its value, and stands packed without gaps in a tensor.
#include "base/dtype.hpp"

#include <gtest/gtest.h>

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
