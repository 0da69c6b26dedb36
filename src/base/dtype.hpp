// DType: every tensor element type of ONNX, its text name, its size, and conversions of the small float formats.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace peri {

// The order of the enumerators is arbitrary; files and the IR text use the names.
enum class DType : uint8_t {
  kInvalid,
  kF32,
  kF64,
  kF16,
  kBF16,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0,
  kF4E2M1,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kI4,
  kU4,
  kI2,
  kU2,
  kBool,
  kString,
  kC64,
  kC128,
  kF6E2M3,
  kF6E3M2,
};
constexpr int kDTypeCount = static_cast<int>(DType::kF6E3M2) + 1;

// "f32", "f64", "f16", "bf16", "f8e4m3fn", ..., "i8", "u8", "i4", "bool", "string", "c64", "c128".
std::string_view dtype_name(DType t);
Result<DType> parse_dtype(std::string_view name);

// Bits of one element (string: 0). Sub-byte types are packed low bits first, as in ONNX.
int dtype_bits(DType t);
// Bytes of `count` elements, rounded up; error if it overflows int64 or the count is negative. string: error.
Result<int64_t> dtype_bytes(DType t, int64_t count);
// Bytes of one element of a byte-sized type (0 for sub-byte types and string).
int dtype_size(DType t);

bool is_float(DType t);    // all floating-point formats, without complex
bool is_integer(DType t);  // signed and unsigned, without bool
bool is_signed(DType t);   // signed integers and floats

// Unit round-off u of a float type (half the distance from 1 to the next number); 0 for others.
double unit_roundoff(DType t);

// Conversions; rounding is to nearest even. `saturate` clamps out-of-range finite values to the largest finite one.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float v);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float v);
float f8_to_f32(DType t, uint8_t bits);
uint8_t f32_to_f8(DType t, float v, bool saturate);
float f4e2m1_to_f32(uint8_t nibble);
uint8_t f32_to_f4e2m1(float v);
// f6e2m3 and f6e3m2, in the low six bits. They have no infinity and no NaN: values out of range, and NaN, become the
// largest finite value.
float f6_to_f32(DType t, uint8_t bits);
uint8_t f32_to_f6(DType t, float v);
// Rounds a double to the nearest value of `t` (ties to even), as a double. Integers: unchanged.
double round_to(DType t, double v);

}  // namespace peri
