// Vector functions over the types of vec_avx2.hpp and vec_avx512.hpp: exp, log, tanh, erf, sigmoid, sin, cos, pow and
// the activations built on them. Contract of each: at most the stated ulp over all floats, IEEE answers for zeros,
// infinities and NaN, subnormal arguments and results exact to the same bound. Call as simd::exp(v).
// Method: argument reduction in fused steps and the minimax fits of tools/minimax.py.
#pragma once

#include <cstring>

#include "kernels/cpu/simd/coefficients.hpp"

#ifndef PERI_SIMD
#error "include vec_avx2.hpp or vec_avx512.hpp first"
#endif

namespace peri::simd {

// c[0] + c[1] x + ... by Horner's rule in fused steps.
template <int N, class V>
PERI_SIMD V horner(const float (&c)[N], V x) {
  V y = V::set1(c[N - 1]);
#pragma GCC unroll 16
  for (int k = N - 2; k >= 0; --k) y = fma(y, x, V::set1(c[k]));
  return y;
}
// The same with the coefficients of each lane's own piece.
template <int N, int kPieces, class V>
PERI_SIMD V horner_piece(const float (&c)[N][kPieces], typename V::Int piece, V x) {
  V y = look_up(c[N - 1], piece);
#pragma GCC unroll 16
  for (int k = N - 2; k >= 0; --k) y = fma(y, x, look_up(c[k], piece));
  return y;
}
template <int N, class D>
PERI_SIMD D horner_double(const double (&c)[N], D x) {
  D y = D::set1(c[N - 1]);
#pragma GCC unroll 16
  for (int k = N - 2; k >= 0; --k) y = fma(y, x, D::set1(c[k]));
  return y;
}

template <class V>
PERI_SIMD V copy_sign(V magnitude, V sign) {
  return bit_or(abs(magnitude), sign_bit(sign));
}

// e^x = 2^n e^r, |r| <= ln(2)/2: computes r, n and e^r - 1.
template <class V>
struct ExpParts {
  V n, r, expm1;
};
template <class V>
PERI_SIMD ExpParts<V> exp_parts(V x) {
  const V n = round(x * V::set1(1.44269504f));
  const V r = fnma(n, V::set1(kLn2[1]), fnma(n, V::set1(kLn2[0]), x));
  return {n, r, fma(r * r, horner(kExpm1, r), r)};
}

// e^x: 1 ulp. Overflow to +Inf, underflow through the subnormals to 0.
template <class V>
PERI_SIMD V exp(V x) {
  const V clipped = min_second(V::set1(89.0f), max_second(V::set1(-105.0f), x));  // NaN passes
  const auto parts = exp_parts(clipped);
  return scale(V::set1(1.0f) + parts.expm1, parts.n);
}

// e^x - 1: 2 ulp; exact sign of zero.
template <class V>
PERI_SIMD V expm1(V x) {
  const V clipped = min_second(V::set1(89.0f), max_second(V::set1(-30.0f), x));
  const auto parts = exp_parts(clipped);
  // 2^127 (2 e^r) - 1 near overflow: the power is applied as two factors.
  const V half = floor(parts.n * V::set1(0.5f));
  const V a = scale(V::set1(1.0f), half);
  const V b = scale(V::set1(1.0f), parts.n - half);
  const V power = a * b;
  const V sum = fma(parts.expm1, power, power - V::set1(1.0f));
  const V large = (parts.expm1 + V::set1(1.0f)) * a * b;
  const V y = select(gt(parts.n, V::set1(30.0f)), large, sum);
  return select(lt(abs(x), V::set1(1e-8f)), x, y);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)), x positive, finite, not zero. Subnormal x allowed.
template <class V>
PERI_SIMD void split_exponent(V x, V* e, V* m) {
  using I = typename V::Int;
  const auto tiny = lt(x, V::set1(0x1p-126f));
  const V scaled = select(tiny, x * V::set1(0x1p24f), x);
  const I bits = as_int(scaled) - I::set1(0x3f3504f3);
  *e = to_float(shift_right<23>(bits)) - select(tiny, V::set1(24.0f), V::zero());
  *m = as_float((bits & I::set1(0x007fffff)) + I::set1(0x3f3504f3));
}

// Natural logarithm: 2 ulp. log(+-0) = -Inf, log(x < 0) = NaN, log(+Inf) = +Inf.
template <class V>
PERI_SIMD V log(V x) {
  V e, m;
  split_exponent(x, &e, &m);
  const V f = m - V::set1(1.0f);
  const V f2 = f * f;
  V tail = f2 * f * horner(kLog1p, f);
  tail = fma(e, V::set1(kLn2[1]), tail);
  tail = fnma(V::set1(0.5f), f2, tail);
  V y = fma(e, V::set1(kLn2[0]), f + tail);
  y = select(eq(x, V::zero()), V::set1(-__builtin_inff()), y);
  y = select(eq(x, V::set1(__builtin_inff())), x, y);
  return select(lt(x, V::zero()) | is_nan(x), V::set1(__builtin_nanf("")), y);
}

// tanh by polynomials on pieces of |x|, as many as a vector has lanes: coefficients are looked up by a shuffle. The
// exponent and first fraction bits of |x| + 1 select the piece. 2 ulp.
template <class V>
PERI_SIMD V tanh(V x) {
  using I = typename V::Int;
  constexpr int kFraction = V::kLanes == 16 ? 21 : 22;  // bits within a piece
  const V c = min_second(V::set1(9.2f), abs(x));
  const I bits = as_int(c + V::set1(1.0f));
  const V t = c - (as_float(bits & I::set1(-(1 << kFraction))) - V::set1(1.0f));
  const I piece = shift_right<kFraction>(bits);
  V y;
  if constexpr (V::kLanes == 16) {
    y = horner_piece(kTanh16, piece, t);
  } else {
    y = horner_piece(kTanh8, piece, t);
  }
  return copy_sign(min_second(V::set1(1.0f), y), x);
}

// An odd function by pieces of equal length, centred at multiples of it; `most` is its end.
template <int N, int kPieces, class V>
PERI_SIMD V odd_by_pieces(const float (&c)[N][kPieces], float piece, float most, V x) {
  const V round = V::set1(0x1.8p23f);                                  // adding it rounds to the nearest integer
  const V a = min_second(V::set1((kPieces - 0.51f) * piece), abs(x));  // within the last piece
  const V number = fma(a, V::set1(1 / piece), round);
  const V t = fnma(number - round, V::set1(piece), a);
  return copy_sign(min_second(V::set1(most), horner_piece(c, as_int(number), t)), x);
}

// erf: 2.2 ulp.
template <class V>
PERI_SIMD V erf(V x) {
  if constexpr (V::kLanes == 16)
    return odd_by_pieces(kErf16, 0.25f, 1.0f, x);
  else
    return odd_by_pieces(kErf8, 0.515625f, 1.0f, x);
}

// 1 / (1 + e^-x): 3 ulp, also where the result is subnormal.
template <class V>
PERI_SIMD V sigmoid(V x) {
  const V e = exp(-abs(x));
  const V one = V::set1(1.0f);
  return select(lt(x, V::zero()), e, one) / (one + e);
}

// Exact reduction of a large finite argument: r = x - k pi/2, |r| <= pi/4; returns k mod 4. Multiplies the 24-bit
// mantissa by the 96 relevant bits of 2/pi (Payne and Hanek's method).
static __attribute__((noinline, unused)) int reduce_large(float x, float* r) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 150;
  if (exponent > 104 || exponent < -62) {  // Inf or NaN; tiny
    *r = exponent > 104 ? __builtin_nanf("") : x;
    return 0;
  }
  const uint64_t mantissa = (bits & 0x007fffffu) | 0x00800000u;
  const int start = exponent - 2 + 64;  // first bit of the window in the table, 2 integer bits kept
  const int word = start >> 5, shift = start & 31;
  unsigned __int128 window = 0;
  for (int k = 0; k < 4; ++k) window = (window << 32) | (word + k < 10 ? kTwoOverPi[word + k] : 0);
  window = (window << shift) >> 32;                           // 96 bits from `start` on
  const unsigned __int128 product = window * mantissa << 32;  // top 2 bits: quadrant; then the fraction
  const uint64_t top = static_cast<uint64_t>(product >> 64);
  const uint64_t turned = top + (uint64_t{1} << 61);  // round to the nearest quadrant
  const int64_t fraction = static_cast<int64_t>((top << 2));
  double f = static_cast<double>(fraction) * 0x1p-64;  // in [-1/2, 1/2)
  int quadrant = static_cast<int>(turned >> 62);
  f *= 1.5707963267948966;
  if (bits >> 31) {
    f = -f;
    quadrant = -quadrant;
  }
  *r = static_cast<float>(f);
  return quadrant & 3;
}

template <class V>
PERI_SIMD void reduce_quadrant(V x, V* r, typename V::Int* quadrant) {
  using I = typename V::Int;
  const V n = round(x * V::set1(0.636619772f));
  V t = fnma(n, V::set1(kHalfPi[0]), x);
  t = fnma(n, V::set1(kHalfPi[1]), t);
  *r = fnma(n, V::set1(kHalfPi[2]), t);
  *quadrant = to_int(n) & I::set1(3);
  const auto large = ~lt(abs(x), V::set1(8192.0f));
  if (any(large)) [[unlikely]] {
    float xs[V::kLanes], rs[V::kLanes];
    int32_t qs[V::kLanes];
    store(xs, x);
    for (int k = 0; k < V::kLanes; ++k) qs[k] = reduce_large(xs[k], &rs[k]);
    *r = select(large, V::load(rs), *r);
    *quadrant = select(large, I::load(qs), *quadrant);
  }
}

template <class V>
PERI_SIMD V sin_of_quadrant(V r, typename V::Int quadrant) {
  using I = typename V::Int;
  const V z = r * r;
  const V s = fma(r * z, horner(kSin, z), r);
  const V c = fma(z * z, horner(kCos, z), fnma(V::set1(0.5f), z, V::set1(1.0f)));
  const V y = select(eq(quadrant & I::set1(1), I::set1(1)), c, s);
  return as_float(as_int(y) ^ shift_left<30>(quadrant & I::set1(2)));
}

// 2 ulp over all finite floats; sin(+-Inf) = cos(+-Inf) = NaN.
template <class V>
PERI_SIMD V sin(V x) {
  V r;
  typename V::Int quadrant;
  reduce_quadrant(x, &r, &quadrant);
  return select(eq(x, V::zero()), x, sin_of_quadrant(r, quadrant));
}
template <class V>
PERI_SIMD V cos(V x) {
  V r;
  typename V::Int quadrant;
  reduce_quadrant(x, &r, &quadrant);
  return sin_of_quadrant(r, (quadrant + V::Int::set1(1)) & V::Int::set1(3));
}

// 2^(y (e + log2 m)) in double, for one half of the lanes; the exponent is clipped beyond float's range.
template <class D>
PERI_SIMD D pow_half(D e, D m, D y) {
  const D one = D::set1(1.0);
  const D s = (m - one) / (m + one);
  const D log2 = fma(s, horner_double(kLog2Double, s * s), e);
  const D t = max_second(D::set1(-200.0), min_second(D::set1(200.0), y * log2));
  const D n = round(t);
  return scale(horner_double(kExp2Double, t - n), n);
}

// x^y: 1 ulp; all special cases of C's pow.
template <class V>
PERI_SIMD V pow(V x, V y) {
  const V zero = V::zero(), one = V::set1(1.0f), inf = V::set1(__builtin_inff()), nan = V::set1(__builtin_nanf(""));
  const V ax = abs(x), ay = abs(y);
  V e, m;
  split_exponent(ax, &e, &m);
  V z = from_doubles(pow_half(low_double(e), low_double(m), low_double(y)),
                     pow_half(high_double(e), high_double(m), high_double(y)));
  const auto y_negative = lt(y, zero);
  const auto whole = eq(y, trunc(y));  // +-Inf counts as whole and even
  const V half = y * V::set1(0.5f);
  const auto odd = whole & ne(half, trunc(half)) & lt(ay, inf);
  z = select(eq(ax, zero) | eq(ax, inf), select(eq(ax, zero) ^ y_negative, zero, inf), z);
  const V big = select(gt(ax, one) ^ y_negative, inf, zero);
  z = select(eq(ay, inf), select(eq(ax, one), one, big), z);
  const auto negative = eq(copy_sign(one, x), V::set1(-1.0f));
  z = select(negative & odd, -z, z);
  z = select(lt(x, zero) & ~whole & gt(x, -inf), nan, z);
  z = select(is_nan(x) | is_nan(y), nan, z);
  return select(eq(y, zero) | eq(x, one), one, z);
}

// Activations, as ONNX defines them: NaN in, NaN out, and NaN at -Inf where the definition has -Inf times 0.
template <class V>
PERI_SIMD V relu(V x) {
  return max_second(V::zero(), x);  // NaN passes; relu(-0) = -0
}
// x / (1 + e^-x): 4 ulp, also where the result is subnormal. The power of two is applied last.
template <class V>
PERI_SIMD V silu(V x) {
  const V one = V::set1(1.0f);
  const auto parts = exp_parts(max_second(V::set1(-115.0f), -abs(x)));
  const V p = one + parts.expm1;
  const auto negative = lt(x, V::zero());
  const V q = select(negative, x * p, x) / (one + scale(p, parts.n));
  const V y = select(negative, scale(q, parts.n), q);
  return select(lt(x, V::set1(-115.0f)), x * V::zero(), y);
}
// x (1/2 + erf(x/sqrt(2))/2); absolute error below 4 u max(|x|, |result|).
template <class V>
PERI_SIMD V gelu_erf(V x) {
  V half;
  if constexpr (V::kLanes == 16)
    half = odd_by_pieces(kHalfErf16, 0.353515625f, 0.5f, x);
  else
    half = odd_by_pieces(kHalfErf8, 0.73046875f, 0.5f, x);
  return x * (V::set1(0.5f) + half);
}
// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
template <class V>
PERI_SIMD V gelu_tanh(V x) {
  const V inner = V::set1(0.79788456f) * fma(V::set1(0.044715f) * x * x, x, x);
  return V::set1(0.5f) * x * (V::set1(1.0f) + tanh(inner));
}
// clip(a x + b, 0, 1)
template <class V>
PERI_SIMD V hard_sigmoid(V x, V a, V b) {
  return max_second(V::zero(), min_second(V::set1(1.0f), fma(x, a, b)));
}
template <class V>
PERI_SIMD V hard_swish(V x) {
  return x * hard_sigmoid(x, V::set1(1.0f / 6.0f), V::set1(0.5f));
}
// log(1 + e^x) = max(x, 0) + log1p(e^-|x|)
template <class V>
PERI_SIMD V softplus(V x) {
  const V e = exp(-abs(x));
  const V one_plus = V::set1(1.0f) + e;
  // log1p(e) = log(1+e) e / ((1+e) - 1): the rounding of 1+e cancels (Kahan).
  const V rounded = one_plus - V::set1(1.0f);
  const V log1p = select(eq(rounded, V::zero()), e, log(one_plus) * (e / rounded));
  return max(x, V::zero()) + log1p;
}

}  // namespace peri::simd
