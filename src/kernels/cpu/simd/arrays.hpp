// Every vector function as a loop over an array, per instruction set: for tests and simple callers.
#pragma once

#include <cstdint>

namespace peri::simd {

enum class Function : uint8_t {
  kExp,
  kExpm1,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kSin,
  kCos,
  kRelu,
  kSilu,
  kGeluErf,
  kGeluTanh,
  kHardSwish,
  kSoftplus,
  kRound,
  kFloor,
  kCeil,
  kTrunc,
  kSqrt,
  kAbs,
  kNeg,
};
constexpr int kFunctionCount = static_cast<int>(Function::kNeg) + 1;

// out[i] = f(in[i]), 0 <= i < n; in == out is allowed. The caller must check that the CPU has the instruction set.
namespace avx2 {
void apply(Function f, const float* in, float* out, int64_t n);
void apply_pow(const float* x, const float* y, float* out, int64_t n);
void apply_max(const float* x, const float* y, float* out, int64_t n);
void apply_min(const float* x, const float* y, float* out, int64_t n);
void add_scaled(float a, const float* x, float* y, int64_t n);  // y += a x
void to_f16(const float* in, uint16_t* out, int64_t n);         // nearest even
void to_bf16(const float* in, uint16_t* out, int64_t n);        // nearest even
void from_f16(const uint16_t* in, float* out, int64_t n);
void from_bf16(const uint16_t* in, float* out, int64_t n);
}  // namespace avx2
namespace avx512 {
void apply(Function f, const float* in, float* out, int64_t n);
void apply_pow(const float* x, const float* y, float* out, int64_t n);
void apply_max(const float* x, const float* y, float* out, int64_t n);
void apply_min(const float* x, const float* y, float* out, int64_t n);
void add_scaled(float a, const float* x, float* y, int64_t n);
void to_f16(const float* in, uint16_t* out, int64_t n);
void to_bf16(const float* in, uint16_t* out, int64_t n);
void from_f16(const uint16_t* in, float* out, int64_t n);
void from_bf16(const uint16_t* in, float* out, int64_t n);
}  // namespace avx512

}  // namespace peri::simd
