// Coefficients of the vector functions. Written by tools/minimax.py, which says how; do not edit by hand.
#pragma once

#include <cstdint>

namespace peri::simd {

// clang-format off
// e^r = 1 + r + r^2 * P(r), |r| <= ln(2)/2; error of expm1(r), relative: 1.4e-08
inline constexpr float kExpm1[] = {0x1.0000000000000p-1f, 0x1.5554b00000000p-3f, 0x1.5554d00000000p-5f, 0x1.1227ec0000000p-7f, 0x1.6d690a0000000p-10f};
// log(1+f) = f - f^2/2 + f^3 * P(f), sqrt(1/2) <= 1+f <= sqrt(2); relative: 5.9e-09
inline constexpr float kLog1p[] = {0x1.55554a0000000p-2f, -0x1.00021e0000000p-2f, 0x1.99a5a40000000p-3f, -0x1.5479000000000p-3f, 0x1.226dd00000000p-3f, -0x1.0cdc420000000p-3f, 0x1.07d14c0000000p-3f, -0x1.4201ca0000000p-4f};
// erf(x) = x * P(x^2) / Q(x^2), |x| <= 3.925; relative, in float32: 1.9e-07
inline constexpr float kErfP[] = {0x1.16b5ac0000000p+1f, 0x1.6dd6f00000000p-2f, 0x1.acc9fe0000000p-4f, 0x1.e58e040000000p-8f, 0x1.7d64080000000p-11f, 0x1.2acc920000000p-17f, -0x1.a929d80000000p-26f};
// the denominator of the same
inline constexpr float kErfQ[] = {0x1.ee00000000000p+0f, 0x1.eb71200000000p-1f, 0x1.c20e540000000p-3f, 0x1.e7ea420000000p-6f, 0x1.494f060000000p-9f, 0x1.f978880000000p-14f};
// sin(r) = r + r^3 * P(r^2), |r| <= pi/4; relative: 1.6e-10
inline constexpr float kSin[] = {-0x1.5555560000000p-3f, 0x1.1111760000000p-7f, -0x1.a05b940000000p-13f, 0x1.7cc4e40000000p-19f};
// cos(r) = 1 - r^2/2 + r^4 * P(r^2), |r| <= pi/4; absolute: 1.1e-10
inline constexpr float kCos[] = {0x1.55554a0000000p-5f, -0x1.6c0c1a0000000p-10f, 0x1.99e0ec0000000p-16f};
// log2((1+s)/(1-s)) = s * P(s^2), in double for pow; relative: 1.4e-17
inline constexpr double kLog2Double[] = {0x1.71547652b82fep+1, 0x1.ec709dc3a08e6p-1, 0x1.2776c50e4c88fp-1, 0x1.a61763c8fc3b7p-2, 0x1.484a9f00fbf1bp-2, 0x1.0cb375fbfdcf4p-2, 0x1.c0ed3427229efp-3, 0x1.d7abfa47eddd1p-3};
// 2^f = P(f), |f| <= 1/2, in double for pow; absolute: 7.9e-13
inline constexpr double kExp2Double[] = {0x1.000000000007cp+0, 0x1.62e42fef844e4p-1, 0x1.ebfbdff804cc8p-3, 0x1.c6b08dd83d8dep-5, 0x1.3b2ab73ee2aeep-7, 0x1.5d8744280728ap-10, 0x1.43086e72f0f4dp-13, 0x1.00dd48f3021cfp-16, 0x1.640f4fb7a0f5dp-20};
// ln(2) and pi/2 as sums of floats
inline constexpr float kLn2[] = {0x1.62e4300000000p-1f, -0x1.05c6100000000p-29f};
// r = x - n*c[0] - n*c[1] - n*c[2] by fused steps
inline constexpr float kHalfPi[] = {0x1.921fb60000000p+0f, -0x1.777a5c0000000p-25f, -0x1.ee59da0000000p-50f};
// 2/pi in binary, 256 bits after 64 leading zeros: the exact reduction of large arguments.
inline constexpr uint32_t kTwoOverPi[] = {0, 0, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
// clang-format on

}  // namespace peri::simd
