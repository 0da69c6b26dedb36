// Functions of one element, which the loops of typed/loops_body.hpp repeat. Only built-ins, and nothing shared between
// sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::typed {
namespace {

template <bool Which, class A, class B>
struct Choose {
  using Type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using Type = B;
};
template <bool Which, class A, class B>
using If = typename Choose<Which, A, B>::Type;

// The low bits of a number converted to an integer: NaN is 0, values beyond 64 bits the nearest limit.
template <class T>
uint64_t to_bits(T v, bool unsigned_64) {
  if (v != v) return 0;
  if (unsigned_64 && v >= T(0x1p63)) return v >= T(0x1p64) ? UINT64_MAX : static_cast<uint64_t>(v);
  if (v >= T(0x1p63)) return static_cast<uint64_t>(INT64_MAX);
  if (v < T(-0x1p63)) return static_cast<uint64_t>(INT64_MIN);
  return static_cast<uint64_t>(static_cast<int64_t>(v));
}

template <class T>
T divided(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
}
template <class T, bool Truncate>
T remainder_of(T a, T b) {
  if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
  const T r = static_cast<T>(a % b);
  return !Truncate && r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T, class U, bool Left>
T shifted(T x, T by) {
  constexpr bool kSigned = T(-1) < T(0);
  if ((kSigned && by < 0) || static_cast<uint64_t>(by) >= 8 * sizeof(T)) return !Left && x < 0 ? static_cast<T>(-1) : 0;
  return Left ? static_cast<T>(static_cast<U>(x) << by) : static_cast<T>(x >> by);
}

#define PERI_FUNCTION(name, builtin)                                    \
  inline float name##_of(float v) { return __builtin_##builtin##f(v); } \
  inline double name##_of(double v) { return __builtin_##builtin(v); }
PERI_FUNCTION(sqrt, sqrt)
PERI_FUNCTION(rint, rint)
PERI_FUNCTION(floor, floor)
PERI_FUNCTION(ceil, ceil)
PERI_FUNCTION(expm1, expm1)
PERI_FUNCTION(log, log)
PERI_FUNCTION(log1p, log1p)
PERI_FUNCTION(erf, erf)
PERI_FUNCTION(sin, sin)
PERI_FUNCTION(cos, cos)
PERI_FUNCTION(tan, tan)
PERI_FUNCTION(sinh, sinh)
PERI_FUNCTION(cosh, cosh)
PERI_FUNCTION(asinh, asinh)
PERI_FUNCTION(acosh, acosh)
PERI_FUNCTION(atanh, atanh)
#undef PERI_FUNCTION
inline float exp_of(float v) { return __builtin_expf(v); }
inline float tanh_of(float v) { return __builtin_tanhf(v); }

// In float64 without branches, so that it vectorises: e^x = 2^n e^r with |r| <= ln(2) / 2.
constexpr double kInverseLn2 = 1.4426950408889634, kLn2High = 0x1.62e42fefap-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
constexpr double kRounds = 0x1.8p52;  // adding it removes the fraction
// n whole, 2^n normal.
inline double power_of_two(double n) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, n + (0x1p52 + 1023)) << 52);
}
// e^r - 1 by its series to r^13.
inline double expm1_near(double r) {
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return r + r * r * p;
}
inline double exp_of(double v) {
  v = v > 710.0 ? 710.0 : v;  // NaN stays
  v = v < -746.0 ? -746.0 : v;
  const double n = v * kInverseLn2 + kRounds - kRounds, r = v - n * kLn2High - n * kLn2Low;
  const double half = n * 0.5 + kRounds - kRounds;
  return (1 + expm1_near(r)) * power_of_two(half) * power_of_two(n - half);
}
inline double tanh_of(double v) {
  const double x = v < 0 ? -v : v, y = 2 * (x > 22.0 ? 22.0 : x);
  const double n = y * kInverseLn2 + kRounds - kRounds, r = y - n * kLn2High - n * kLn2Low, scale = power_of_two(n);
  const double e = scale * expm1_near(r) + (scale - 1);
  return __builtin_copysign(e / (e + 2), v);
}
inline float pow_of(float a, float b) { return __builtin_powf(a, b); }
inline double pow_of(double a, double b) { return __builtin_pow(a, b); }
inline double asin_of(double v) { return __builtin_asin(v); }
inline double acos_of(double v) { return __builtin_acos(v); }
inline double atan_of(double v) { return __builtin_atan(v); }

// In float32 without branches, so that it vectorises: series about zero, and the identities that reduce an argument to
// that range.
inline float asin_near(float z, float square) {  // |z| <= 1/2, by the series of arcsine economised
  return z + z * square *
                 ((((4.2163199048e-2F * square + 2.4181311049e-2F) * square + 4.5470025998e-2F) * square +
                   7.4953002686e-2F) *
                      square +
                  1.6666752422e-1F);
}
// `root`: the square root of (1 - |v|) / 2.
inline float asin_by(float v, float root) {
  const float x = v < 0 ? -v : v;
  const bool far = x > 0.5F;
  const float z = far ? root : x, near = asin_near(z, z * z);
  return __builtin_copysignf(far ? 1.57079632679F - 2 * near : near, v);
}
inline float acos_by(float v, float root) {
  const float x = v < 0 ? -v : v;
  const bool far = x > 0.5F;
  const float z = far ? root : x, near = asin_near(z, z * z);
  const float right = far ? 2 * near : 1.57079632679F - near,
              left = far ? 3.14159265359F - 2 * near : 1.57079632679F + near;
  return v < 0 ? left : right;
}
inline float atan_of(float v) {
  const float x = v < 0 ? -v : v;
  const bool far = x > 2.414213562F, middle = x > 0.4142135624F;
  const float above = far ? -1.0F : x - 1, below = far ? x : x + 1;
  const float z = middle ? above / below : x,
              start = far      ? 1.57079632679F
                      : middle ? 0.78539816340F
                               : 0.0F,
              square = z * z;
  const float y =
      start + (z + z * square *
                       (((8.05374449538e-2F * square - 1.38776856032e-1F) * square + 1.99777106478e-1F) * square -
                        3.33329491539e-1F));
  return __builtin_copysignf(y, v);
}

// Exact: while a quotient of float32 stays below 2^26, no rounding of float64 moves it past an integer, and all
// products and differences fit.
inline float remainder_near(float a, float b) {
  const double x = a, y = b, q = x / y;
  if (!(q < 0x1p26 && q > -0x1p26 && y - y == 0)) return __builtin_fmodf(a, b);
  return __builtin_copysignf(static_cast<float>(x - __builtin_trunc(q) * y), a);
}

template <class T, bool Truncate>
T float_remainder(T a, T b) {
  T r;
  if constexpr (sizeof(T) == 4)
    r = remainder_near(a, b);
  else
    r = __builtin_fmod(a, b);
  if (Truncate || r != r) return r;
  if (r == 0) return b < 0 || (b == 0 && 1 / b < 0) ? -T(0) : T(0);
  return (r < 0) != (b < 0) ? r + b : r;
}

}  // namespace
}  // namespace peri::kernels::cpu::typed
