// Element types as bits, and the arithmetic of block code: the rules for NaN, infinity and integers are those of the
// CPU's loops.
#include "kernels/cuda/code/prelude.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kText = R"(#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 177
#define PERI_DEVICE static __device__ __forceinline__
#define PERI_KERNEL extern "C" __global__ void
#define PERI_SHARED __shared__
#define PERI_DYNAMIC(NAME) extern __shared__ __align__(128) float NAME[]
#define PERI_TABLE static __device__ const
PERI_DEVICE float peri_bits(unsigned v) { return __uint_as_float(v); }
PERI_DEVICE unsigned peri_word(float v) { return __float_as_uint(v); }
PERI_DEVICE float peri_from_f16(unsigned short v) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v)); return f; }
PERI_DEVICE unsigned short peri_to_f16(float v) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
PERI_DEVICE unsigned peri_pair_f16(float low, float high) { unsigned w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low)); return w; }
PERI_DEVICE unsigned peri_pair_bf16(float low, float high) { unsigned w; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low)); return w; }
PERI_DEVICE float peri_exp2(float v) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v)); return y; }
PERI_DEVICE float peri_reciprocal(float v) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v)); return y; }
PERI_DEVICE float peri_max(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
PERI_DEVICE float peri_min(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
#endif
PERI_DEVICE float peri_from_bf16(unsigned short v) { return peri_bits((unsigned)v << 16); }
PERI_DEVICE unsigned short peri_to_bf16(float v) {
  const unsigned w = peri_word(v);
  if ((w & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((w >> 16) | 0x40u);
  return (unsigned short)((w + 0x7fffu + ((w >> 16) & 1u)) >> 16);
}
// Conversions between double and int take four times as long as an addition: sums with numbers whose last bit is one.
PERI_DEVICE double peri_whole(int v) { return __hiloint2double(0x43300000, (int)((unsigned)v ^ 0x80000000u)) - 4503601774854144.0; }
PERI_DEVICE double peri_double(long long bits) { return __hiloint2double((int)(bits >> 32), (int)bits); }
PERI_DEVICE int peri_nearest(double v) {
  const double t = v + 6755399441055744.0;
  const int low = __double2loint(t);
  return __double2hiint(t) - 0x43380000 == low >> 31 ? low : __double2hiint(v) < 0 ? -2147483647 - 1 : 2147483647;
}
// x / d with r next to 1 / d, both of them normal: two corrections by what a quotient misses, the second exact to the last
// unit (Markstein 1990); the sign of a 0 and quotients below 2^-126 may differ.
PERI_DEVICE float peri_over(float x, float d, float r) {
  const float q = x * r, near = fmaf(fmaf(-q, d, x), r, q), next = fmaf(fmaf(-near, d, x), r, near);
  return fabsf(q) < peri_bits(0x7f800000u) ? next : q;
}
struct alignas(16) peri_16 { unsigned w[4]; };
PERI_DEVICE void peri_load_8_f32(const float* p, float* v) {
  const peri_16 a = ((const peri_16*)p)[0], b = ((const peri_16*)p)[1];
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = peri_bits(a.w[k]), v[4 + k] = peri_bits(b.w[k]);
}
PERI_DEVICE void peri_load_8_f16(const unsigned short* p, float* v) {
  const peri_16 a = *(const peri_16*)p;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    v[2 * k] = peri_from_f16((unsigned short)a.w[k]);
    v[2 * k + 1] = peri_from_f16((unsigned short)(a.w[k] >> 16));
  }
}
PERI_DEVICE void peri_load_8_bf16(const unsigned short* p, float* v) {
  const peri_16 a = *(const peri_16*)p;
#pragma unroll
  for (int k = 0; k < 4; ++k) v[2 * k] = peri_bits(a.w[k] << 16), v[2 * k + 1] = peri_bits(a.w[k] & 0xffff0000u);
}
PERI_DEVICE void peri_store_8_f32(float* p, const float* v) {
  peri_16 a, b;
#pragma unroll
  for (int k = 0; k < 4; ++k) a.w[k] = peri_word(v[k]), b.w[k] = peri_word(v[4 + k]);
  ((peri_16*)p)[0] = a, ((peri_16*)p)[1] = b;
}
PERI_DEVICE void peri_store_8_f16(unsigned short* p, const float* v) {
  peri_16 a;
#pragma unroll
  for (int k = 0; k < 4; ++k) a.w[k] = peri_pair_f16(v[2 * k], v[2 * k + 1]);
  *(peri_16*)p = a;
}
PERI_DEVICE void peri_store_8_bf16(unsigned short* p, const float* v) {
  peri_16 a;
#pragma unroll
  for (int k = 0; k < 4; ++k) a.w[k] = peri_pair_bf16(v[2 * k], v[2 * k + 1]);
  *(peri_16*)p = a;
}
struct alignas(8) peri_8 { unsigned w[2]; };
PERI_DEVICE void peri_load_8_u8(const unsigned char* p, int* v) {
  const peri_8 a = *(const peri_8*)p;
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = (int)(a.w[k / 4] >> 8 * (k % 4) & 255u);
}
PERI_DEVICE void peri_load_8_i8(const signed char* p, int* v) {
  const peri_8 a = *(const peri_8*)p;
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = (int)(signed char)(a.w[k / 4] >> 8 * (k % 4));
}
PERI_DEVICE void peri_store_8_u8(unsigned char* p, const int* v) {
  peri_8 a = {{0u, 0u}};
#pragma unroll
  for (int k = 0; k < 8; ++k) a.w[k / 4] |= ((unsigned)v[k] & 255u) << 8 * (k % 4);
  *(peri_8*)p = a;
}
PERI_DEVICE void peri_store_8_i8(signed char* p, const int* v) { peri_store_8_u8((unsigned char*)p, v); }
PERI_DEVICE void peri_load_8_i32(const int* p, int* v) {
  const peri_16 a = ((const peri_16*)p)[0], b = ((const peri_16*)p)[1];
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = (int)a.w[k], v[4 + k] = (int)b.w[k];
}
PERI_DEVICE void peri_store_8_i32(int* p, const int* v) {
  peri_16 a, b;
#pragma unroll
  for (int k = 0; k < 4; ++k) a.w[k] = (unsigned)v[k], b.w[k] = (unsigned)v[4 + k];
  ((peri_16*)p)[0] = a, ((peri_16*)p)[1] = b;
}
PERI_DEVICE void peri_load_2_f32(const float* p, float* v) { v[0] = p[0], v[1] = p[1]; }
PERI_DEVICE void peri_load_2_f16(const unsigned short* p, float* v) {
  const unsigned w = *(const unsigned*)p;
  v[0] = peri_from_f16((unsigned short)w), v[1] = peri_from_f16((unsigned short)(w >> 16));
}
PERI_DEVICE void peri_load_2_bf16(const unsigned short* p, float* v) {
  const unsigned w = *(const unsigned*)p;
  v[0] = peri_bits(w << 16), v[1] = peri_bits(w & 0xffff0000u);
}
PERI_DEVICE void peri_store_2_f32(float* p, const float* v) { p[0] = v[0], p[1] = v[1]; }
PERI_DEVICE void peri_store_2_f16(unsigned short* p, const float* v) { *(unsigned*)p = peri_pair_f16(v[0], v[1]); }
PERI_DEVICE void peri_store_2_bf16(unsigned short* p, const float* v) { *(unsigned*)p = peri_pair_bf16(v[0], v[1]); }
PERI_DEVICE float peri_inf() { return peri_bits(0x7f800000u); }
PERI_DEVICE float peri_relu(float x) { return peri_max(x, 0.0f); }
PERI_DEVICE float peri_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x + 0.0f; }
#if PERI_NEAR
// 2 to v: of the fraction, at most a half, by 1 + v times a polynomial fitted to its relative error, 2e-9; 0.9 units in
// the last place.
PERI_DEVICE float peri_exp2_near(float v) {
  const float whole = rintf(v), f = v - whole;
  float p = fmaf(1.53707049e-4f, f, 1.33998482e-3f);
  p = fmaf(p, f, 9.61837359e-3f), p = fmaf(p, f, 5.55032901e-2f), p = fmaf(p, f, 0.240226477f);
  p = fmaf(p, f, 0.693147182f), p = fmaf(p, f, 1.0f);
  return whole < -126.0f ? 0.0f : p * peri_bits((unsigned)((int)whole + 127) << 23);
}
// 1 / (1 + e) or e / (1 + e), e at most 1: the quotient by an approximate reciprocal, and what it misses, with what
// 1 + e lost when it was rounded.
PERI_DEVICE float peri_sigmoid(float x) {
  const float e = expf(-fabsf(x)), d = 1.0f + e, lost = e - (d - 1.0f), r = peri_reciprocal(d), top = x < 0.0f ? e : 1.0f;
  const float q = top * r;
  return fmaf(fmaf(-lost, q, fmaf(-d, q, top)), r, q);
}
#else
PERI_DEVICE float peri_exp2_near(float v) { return peri_exp2(v); }
PERI_DEVICE float peri_sigmoid(float x) { return peri_reciprocal(1.0f + expf(-x)); }
#endif
PERI_DEVICE float peri_silu(float x) { return x * peri_sigmoid(x); }
// x * Phi(x); Phi(-a) is 2 to a polynomial of a, fitted from 0 to 6 to 8e-9 and falling beyond.
PERI_DEVICE float peri_gelu(float x) {
  const float a = fabsf(x);
  float q = fmaf(-2.7720491e-6f, a, 3.8620747e-5f);
  q = fmaf(q, a, -1.8254760e-4f), q = fmaf(q, a, -1.4587014e-4f), q = fmaf(q, a, 7.0754718e-3f);
  q = fmaf(q, a, -5.2505028e-2f), q = fmaf(q, a, -0.45920491f), q = fmaf(q, a, -1.1511058f);
  const float phi = peri_exp2_near(fmaf(q, a, -1.0f));
  return x * (x < 0.0f ? phi : 1.0f - phi);
}
PERI_DEVICE float peri_gelu_tanh(float x) {
  return x * peri_sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}
PERI_DEVICE float peri_clip(float x, float low, float high) { return peri_min(peri_max(x, low), high); }
PERI_DEVICE float peri_hard_sigmoid(float x, float a, float b) { return peri_clip(fmaf(a, x, b), 0.0f, 1.0f); }
PERI_DEVICE float peri_hard_swish(float x) { return x * peri_clip(fmaf(x, 0.16666667f, 0.5f), 0.0f, 1.0f); }
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
}  // namespace

std::string_view prelude() { return kText; }

}  // namespace peri::kernels::cuda
