// The loops of quantize/loops.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/quantize/loops.hpp"

namespace peri::kernels::cpu::quantize::PERI_ISA {
namespace {

template <class Q>
Q quantized(float x, float scale, int32_t zero) {
  constexpr float kLow = Q(-1) < Q(0) ? -128.0F : 0.0F, kHigh = kLow + 255.0F;
  const float v = __builtin_rintf(x / scale) + static_cast<float>(zero);
  const float low = v < kLow ? kLow : v, kept = low > kHigh ? kHigh : low;
  return static_cast<Q>(static_cast<int32_t>(kept == kept ? kept : 0.0F));
}

template <class Q>
void to(const float* x, const float* scale, const Q* zero, int64_t step, Q* y, int64_t n) {
  if (step == 0) {
    const float s = *scale;
    const int32_t z = zero ? *zero : 0;
    for (int64_t i = 0; i < n; ++i) y[i] = quantized<Q>(x[i], s, z);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = quantized<Q>(x[i], scale[i], zero ? zero[i] : 0);
  }
}

// Of int32 the difference may pass 2^24: it is rounded once, as a float64 is.
template <class Q>
float dequantized(Q x, float scale, Q zero) {
  if constexpr (sizeof(Q) == 1) return static_cast<float>(static_cast<int32_t>(x) - zero) * scale;
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

void range(const float* x, int64_t n, float* low, float* high) {
  constexpr int64_t kLanes = 64;
  float least[kLanes] = {}, most[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) {
      const float v = x[i + j];
      least[j] = v < least[j] ? v : least[j];
      most[j] = v > most[j] ? v : most[j];
    }
  for (int64_t j = 0; i < n; ++i, ++j) {
    least[j] = x[i] < least[j] ? x[i] : least[j];
    most[j] = x[i] > most[j] ? x[i] : most[j];
  }
  *low = *high = 0;
  for (int64_t j = 0; j < kLanes; ++j) {
    *low = least[j] < *low ? least[j] : *low;
    *high = most[j] > *high ? most[j] : *high;
  }
}
}  // namespace

const Loops kLoops = {to<uint8_t>, to<int8_t>, from<uint8_t>, from<int8_t>, range, from<int32_t>};

}  // namespace peri::kernels::cpu::quantize::PERI_ISA
