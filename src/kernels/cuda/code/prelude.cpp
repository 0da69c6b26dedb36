// Element types as bits, and the arithmetic of block programs: the rules for NaN, infinity and integers are those of
// the CPU's loops.
#include "kernels/cuda/code/prelude.hpp"

namespace peri::kernels::cuda {

std::string_view prelude() {
  return R"(#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 177
#define PERI_DEVICE static __device__ __forceinline__
#define PERI_KERNEL extern "C" __global__ void
#define PERI_SHARED __shared__
#define PERI_DYNAMIC(NAME) extern __shared__ float NAME[]
#define PERI_TABLE static __device__ const
PERI_DEVICE float peri_bits(unsigned v) { return __uint_as_float(v); }
PERI_DEVICE unsigned peri_word(float v) { return __float_as_uint(v); }
PERI_DEVICE float peri_from_f16(unsigned short v) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v)); return f; }
PERI_DEVICE unsigned short peri_to_f16(float v) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
#endif
PERI_DEVICE float peri_from_bf16(unsigned short v) { return peri_bits((unsigned)v << 16); }
PERI_DEVICE unsigned short peri_to_bf16(float v) {
  const unsigned w = peri_word(v);
  if ((w & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((w >> 16) | 0x40u);
  return (unsigned short)((w + 0x7fffu + ((w >> 16) & 1u)) >> 16);
}
PERI_DEVICE float peri_inf() { return peri_bits(0x7f800000u); }
PERI_DEVICE float peri_max(float a, float b) { return a > b || a != a ? a : b; }
PERI_DEVICE float peri_min(float a, float b) { return a < b || a != a ? a : b; }
PERI_DEVICE float peri_relu(float x) { return x < 0.0f ? 0.0f : x; }
PERI_DEVICE float peri_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x + 0.0f; }
PERI_DEVICE float peri_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
PERI_DEVICE float peri_silu(float x) { return x * peri_sigmoid(x); }
PERI_DEVICE float peri_gelu(float x) { return 0.5f * x * erfcf(-0.70710678118654752f * x); }
PERI_DEVICE float peri_gelu_tanh(float x) {
  return x * peri_sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}
PERI_DEVICE float peri_clip(float x, float low, float high) { x = x < low ? low : x; return x > high ? high : x; }
PERI_DEVICE float peri_hard_sigmoid(float x, float a, float b) { return peri_clip(fmaf(a, x, b), 0.0f, 1.0f); }
PERI_DEVICE float peri_hard_swish(float x) { return x * peri_clip(x / 6.0f + 0.5f, 0.0f, 1.0f); }
PERI_DEVICE float peri_softplus(float x) { return peri_relu(x) + log1pf(expf(-fabsf(x))); }
PERI_DEVICE float peri_mish(float x) { return x * tanhf(peri_softplus(x)); }
PERI_DEVICE float peri_leaky_relu(float x, float a) { return x < 0.0f ? x * a : x; }
PERI_DEVICE float peri_elu(float x, float a) { return x < 0.0f ? a * expm1f(x) : x; }
template <class T> PERI_DEVICE T peri_pick(bool c, T a, T b) { return c ? a : b; }
PERI_DEVICE int peri_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
PERI_DEVICE int peri_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
PERI_DEVICE int peri_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
typedef long long peri_i64;
typedef unsigned long long peri_u64;
PERI_DEVICE peri_i64 peri_add(peri_i64 a, peri_i64 b) { return (peri_i64)((peri_u64)a + (peri_u64)b); }
PERI_DEVICE peri_i64 peri_sub(peri_i64 a, peri_i64 b) { return (peri_i64)((peri_u64)a - (peri_u64)b); }
PERI_DEVICE peri_i64 peri_mul(peri_i64 a, peri_i64 b) { return (peri_i64)((peri_u64)a * (peri_u64)b); }
)";
}

}  // namespace peri::kernels::cuda
