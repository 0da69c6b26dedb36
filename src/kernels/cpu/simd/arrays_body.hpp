// The loops of arrays.hpp, written once; included by arrays_avx2.cpp and arrays_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/simd/arrays.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::simd::PERI_ISA {

template <class F>
PERI_SIMD void map(const float* in, float* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) store(out + i, f(F32::load(in + i)));
  if (i < n) store_n(out + i, f(F32::load_n(in + i, n - i)), n - i);
}
template <class F>
PERI_SIMD void map2(const float* x, const float* y, float* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) store(out + i, f(F32::load(x + i), F32::load(y + i)));
  if (i < n) store_n(out + i, f(F32::load_n(x + i, n - i), F32::load_n(y + i, n - i)), n - i);
}

#define PERI_MAP(expr) return map(in, out, n, [](F32 x) __attribute__((always_inline)) { return expr; })
void apply(Function f, const float* in, float* out, int64_t n) {
  switch (f) {
    case Function::kExp: PERI_MAP(exp(x));
    case Function::kExpm1: PERI_MAP(expm1(x));
    case Function::kLog: PERI_MAP(log(x));
    case Function::kTanh: PERI_MAP(tanh(x));
    case Function::kErf: PERI_MAP(erf(x));
    case Function::kSigmoid: PERI_MAP(sigmoid(x));
    case Function::kSin: PERI_MAP(sin(x));
    case Function::kCos: PERI_MAP(cos(x));
    case Function::kRelu: PERI_MAP(relu(x));
    case Function::kSilu: PERI_MAP(silu(x));
    case Function::kGeluErf: PERI_MAP(gelu_erf(x));
    case Function::kGeluTanh: PERI_MAP(gelu_tanh(x));
    case Function::kHardSwish: PERI_MAP(hard_swish(x));
    case Function::kSoftplus: PERI_MAP(softplus(x));
    case Function::kRound: PERI_MAP(round(x));
    case Function::kFloor: PERI_MAP(floor(x));
    case Function::kCeil: PERI_MAP(ceil(x));
    case Function::kTrunc: PERI_MAP(trunc(x));
    case Function::kSqrt: PERI_MAP(sqrt(x));
    case Function::kAbs: PERI_MAP(abs(x));
    case Function::kNeg: PERI_MAP(-x);
  }
}
#undef PERI_MAP

void apply_pow(const float* x, const float* y, float* out, int64_t n) {
  map2(x, y, out, n, [](F32 a, F32 b) __attribute__((always_inline)) { return pow(a, b); });
}
void apply_max(const float* x, const float* y, float* out, int64_t n) {
  map2(x, y, out, n, [](F32 a, F32 b) __attribute__((always_inline)) { return max(a, b); });
}
void apply_min(const float* x, const float* y, float* out, int64_t n) {
  map2(x, y, out, n, [](F32 a, F32 b) __attribute__((always_inline)) { return min(a, b); });
}

void add_scaled(float a, const float* x, float* y, int64_t n) {
  const F32 by = F32::set1(a);
  map2(x, y, y, n, [by](F32 v, F32 sum) __attribute__((always_inline)) { return fma(by, v, sum); });
}

void to_f16(const float* in, uint16_t* out, int64_t n) {
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) store_f16(out + i, F32::load(in + i));
  if (i == n) return;
  uint16_t tail[F32::kLanes];
  store_f16(tail, F32::load_n(in + i, n - i));
  __builtin_memcpy(out + i, tail, static_cast<size_t>(n - i) * sizeof(uint16_t));
}
void to_bf16(const float* in, uint16_t* out, int64_t n) {
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) store_bf16(out + i, F32::load(in + i));
  if (i == n) return;
  uint16_t tail[F32::kLanes];
  store_bf16(tail, F32::load_n(in + i, n - i));
  __builtin_memcpy(out + i, tail, static_cast<size_t>(n - i) * sizeof(uint16_t));
}
void from_f16(const uint16_t* in, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) store(out + i, F32::load_f16(in + i));
  if (i == n) return;
  uint16_t tail[F32::kLanes] = {};
  __builtin_memcpy(tail, in + i, static_cast<size_t>(n - i) * sizeof(uint16_t));
  store_n(out + i, F32::load_f16(tail), n - i);
}
void from_bf16(const uint16_t* in, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + F32::kLanes <= n; i += F32::kLanes) store(out + i, F32::load_bf16(in + i));
  if (i == n) return;
  uint16_t tail[F32::kLanes] = {};
  __builtin_memcpy(tail, in + i, static_cast<size_t>(n - i) * sizeof(uint16_t));
  store_n(out + i, F32::load_bf16(tail), n - i);
}

}  // namespace peri::simd::PERI_ISA
