// The loops of quantize/loops.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/quantize/loops.hpp"

namespace peri::kernels::cpu::quantize::PERI_ISA {
namespace {
using simd::PERI_ISA::F32;

template <class Q>
Q quantized(float x, float scale, int32_t zero) {
  constexpr float kSteps = sizeof(Q) == 1 ? 256.0F : 65536.0F;
  constexpr float kLow = Q(-1) < Q(0) ? -kSteps / 2 : 0.0F, kHigh = kLow + kSteps - 1;
  const float v = __builtin_rintf(x / scale) + static_cast<float>(zero);
  const float low = v < kLow ? kLow : v, kept = low > kHigh ? kHigh : low;
  return static_cast<Q>(static_cast<int32_t>(kept == kept ? kept : 0.0F));
}

// x / scale, correctly rounded, from the reciprocal and two fused steps (Markstein), for numbers without underflow on
// the way: quotients beyond kMaxQuotient saturate in any case.
struct Divisor {
  static constexpr float kMaxQuotient = 0x1p18F;
  F32 scale, reciprocal, low, high;
  PERI_SIMD_MEMBER explicit Divisor(float s)
      : scale(F32::set1(s)),
        reciprocal(F32::set1(1.0F / s)),
        low(F32::set1(-kMaxQuotient * s)),
        high(F32::set1(kMaxQuotient * s)) {}
  // Not valid for a mantissa of all ones, for which the proof does not hold.
  static bool serves(float s) {
    uint32_t bits = 0;
    __builtin_memcpy(&bits, &s, sizeof bits);
    return s > 0x1p-90F && s < 0x1p90F && (bits & 0x7fffffU) != 0x7fffffU;
  }
  PERI_SIMD_MEMBER F32 of(F32 x) const {
    const F32 kept = min_second(high, max_second(low, x)), q = kept * reciprocal;
    return fma(fnma(q, scale, kept), reciprocal, q);
  }
};
// The same as quantized(), in vectors.
template <class Q>
PERI_SIMD void quantize_vector(const Divisor& by, F32 x, int32_t zero, Q* y) {
  const F32 quotient = select(is_nan(x), F32::set1(static_cast<float>(-zero)), by.of(x));
  store_bytes(y, to_int(quotient) + F32::Int::set1(zero));
}
template <class Q>
void quantize_row(const float* x, float scale, int32_t zero, Q* y, int64_t n) {
  const Divisor by(scale);
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) quantize_vector(by, F32::load(x + i), zero, y + i);
  if (i == n) return;
  Q rest[F32::kLanes];
  quantize_vector(by, F32::load_n(x + i, n - i), zero, rest);
  __builtin_memcpy(y + i, rest, static_cast<size_t>(n - i) * sizeof(Q));
}

// The same where each element has its own scale and zero point.
template <class Q>
PERI_SIMD void quantize_each(F32 x, F32 scale, const Q* zero, int64_t count, Q* y) {
  int32_t wide[F32::kLanes] = {};
  for (int64_t l = 0; l < count; ++l) wide[l] = zero[l];
  const F32::Int moved = F32::Int::load(wide);
  const F32 quotient = x / scale, most = F32::set1(Divisor::kMaxQuotient),
            kept = min_second(most, max_second(F32::zero() - most, quotient));
  store_bytes(y, to_int(select(is_nan(quotient), F32::zero() - to_float(moved), kept)) + moved);
}
template <class Q>
void quantize_elements(const float* x, const float* scale, const Q* zero, Q* y, int64_t n) {
  const Q none[F32::kLanes] = {};
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes)
    quantize_each<Q>(F32::load(x + i), F32::load(scale + i), zero ? zero + i : none, F32::kLanes, y + i);
  if (i == n) return;
  Q rest[F32::kLanes];
  quantize_each<Q>(F32::load_n(x + i, n - i), F32::load_n(scale + i, n - i), zero ? zero + i : none, n - i, rest);
  __builtin_memcpy(y + i, rest, static_cast<size_t>(n - i) * sizeof(Q));
}

template <class Q>
void to(const float* x, const float* scale, const Q* zero, int64_t step, Q* y, int64_t n) {
  if (step == 0 && Divisor::serves(*scale)) return quantize_row(x, *scale, zero ? *zero : 0, y, n);
  if (step == 0) {
    const float s = *scale;
    const int32_t z = zero ? *zero : 0;
    for (int64_t i = 0; i < n; ++i) y[i] = quantized<Q>(x[i], s, z);
  } else {
    quantize_elements(x, scale, zero, y, n);
  }
}

// For int32 the difference may exceed 2^24: it is rounded once, as for a float64.
template <class Q>
float dequantized(Q x, float scale, Q zero) {
  if constexpr (sizeof(Q) < 4) return static_cast<float>(static_cast<int32_t>(x) - zero) * scale;
  return static_cast<float>(static_cast<double>(static_cast<int64_t>(x) - zero) * static_cast<double>(scale));
}

template <class Q>
void from(const Q* x, const float* scale, const Q* zero, int64_t step, float* y, int64_t n) {
  if (step == 0) {
    const float s = *scale;
    const Q z = zero ? *zero : Q(0);
    for (int64_t i = 0; i < n; ++i) y[i] = dequantized<Q>(x[i], s, z);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = dequantized<Q>(x[i], scale[i], zero ? zero[i] : Q(0));
  }
}

void quotients(const float* __restrict x, const float* __restrict scale, int64_t step, float* __restrict y, int64_t n) {
  if (step == 0) {
    const float s = *scale;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] / s;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] / scale[i];
  }
}

// NaN is skipped: a comparison with it keeps the second operand.
void range(const float* x, int64_t n, float* low, float* high) {
  F32 least[4], most[4];
  for (int k = 0; k < 4; ++k) least[k] = most[k] = F32::zero();
  int64_t i = 0;
  for (; i + 4 * F32::kLanes <= n; i += 4 * F32::kLanes)
    for (int k = 0; k < 4; ++k) {
      const F32 v = F32::load(x + i + k * F32::kLanes);
      least[k] = min_second(v, least[k]);
      most[k] = max_second(v, most[k]);
    }
  for (; i < n; i += F32::kLanes) {
    const F32 v = F32::load_n(x + i, n - i);
    least[0] = min_second(v, least[0]);
    most[0] = max_second(v, most[0]);
  }
  for (int k = 1; k < 4; ++k) {
    least[0] = min_second(least[k], least[0]);
    most[0] = max_second(most[k], most[0]);
  }
  *low = simd::PERI_ISA::min_lanes(least[0]);
  *high = simd::PERI_ISA::max_lanes(most[0]);
}

float moved(uint8_t x, uint8_t flip, int32_t zero) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint8_t>(x ^ flip)) - zero);
}
uint8_t rounded(float v, const Pair& by) {
  const float low = v < by.low ? by.low : v, kept = low > by.high ? by.high : low;
  return static_cast<uint8_t>(static_cast<int32_t>(__builtin_rintf(kept)) + by.y_zero);
}
template <bool kProduct>
void pair_of(const Pair& by, const uint8_t* __restrict a, const uint8_t* __restrict b, int64_t b_step,
             uint8_t* __restrict y, int64_t n) {
  const Pair k = by;
  const auto join = [&k](float p, float q) __attribute__((always_inline)) {
    return rounded(kProduct ? p * q * k.a_scale : p * k.a_scale + q * k.b_scale, k);
  };
  if (b_step == 0) {
    const float all = moved(*b, k.b_flip, k.b_zero);
    for (int64_t i = 0; i < n; ++i) y[i] = join(moved(a[i], k.a_flip, k.a_zero), all);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = join(moved(a[i], k.a_flip, k.a_zero), moved(b[i], k.b_flip, k.b_zero));
  }
}
void pair(const Pair& by, const uint8_t* a, const uint8_t* b, int64_t b_step, uint8_t* y, int64_t n) {
  by.product ? pair_of<true>(by, a, b, b_step, y, n) : pair_of<false>(by, a, b, b_step, y, n);
}
}  // namespace

const Loops kLoops = {to<uint8_t>,    to<int8_t>,    to<uint16_t>, to<int16_t>,   from<uint8_t>, from<int8_t>,
                      from<uint16_t>, from<int16_t>, range,        from<int32_t>, quotients,     pair};

}  // namespace peri::kernels::cpu::quantize::PERI_ISA
