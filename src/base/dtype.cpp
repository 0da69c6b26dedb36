// The table of element types, and conversions of small floats written once for every format with its bit counts.
#include "base/dtype.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace peri {

namespace {
struct Row {
  std::string_view name;
  int bits;
  bool floating, integer, sign;
  double u;
};
constexpr Row kRows[kDTypeCount] = {
    {"invalid", 0, false, false, false, 0},
    {"f32", 32, true, false, true, 0x1p-24},
    {"f64", 64, true, false, true, 0x1p-53},
    {"f16", 16, true, false, true, 0x1p-11},
    {"bf16", 16, true, false, true, 0x1p-8},
    {"f8e4m3fn", 8, true, false, true, 0x1p-4},
    {"f8e4m3fnuz", 8, true, false, true, 0x1p-4},
    {"f8e5m2", 8, true, false, true, 0x1p-3},
    {"f8e5m2fnuz", 8, true, false, true, 0x1p-3},
    {"f8e8m0", 8, true, false, false, 0.5},
    {"f4e2m1", 4, true, false, true, 0.25},
    {"i8", 8, false, true, true, 0},
    {"i16", 16, false, true, true, 0},
    {"i32", 32, false, true, true, 0},
    {"i64", 64, false, true, true, 0},
    {"u8", 8, false, true, false, 0},
    {"u16", 16, false, true, false, 0},
    {"u32", 32, false, true, false, 0},
    {"u64", 64, false, true, false, 0},
    {"i4", 4, false, true, true, 0},
    {"u4", 4, false, true, false, 0},
    {"i2", 2, false, true, true, 0},
    {"u2", 2, false, true, false, 0},
    {"bool", 8, false, false, false, 0},
    {"string", 0, false, false, false, 0},
    {"c64", 64, false, false, true, 0x1p-24},
    {"c128", 128, false, false, true, 0x1p-53},
    {"f6e2m3", 6, true, false, true, 0x1p-4},
    {"f6e3m2", 6, true, false, true, 0x1p-3},
};
const Row& row(DType t) { return kRows[static_cast<int>(t) < kDTypeCount ? static_cast<int>(t) : 0]; }

// A small float: sign bit, exponent bits with a bias, mantissa bits, and how Inf and NaN are spelt.
struct Format {
  int exponent, mantissa, bias;
  bool has_inf, nuz;  // nuz: NaN is 0x80, no negative zero
  double largest;
};
Format format_of(DType t) {
  switch (t) {
    case DType::kF16: return {5, 10, 15, true, false, 65504.0};
    case DType::kBF16: return {8, 7, 127, true, false, 0x1.fep127};
    case DType::kF8E4M3FN: return {4, 3, 7, false, false, 448.0};
    case DType::kF8E4M3FNUZ: return {4, 3, 8, false, true, 240.0};
    case DType::kF8E5M2: return {5, 2, 15, true, false, 57344.0};
    case DType::kF8E5M2FNUZ: return {5, 2, 16, false, true, 57344.0};
    case DType::kF4E2M1: return {2, 1, 1, false, false, 6.0};
    case DType::kF6E2M3: return {2, 3, 1, false, false, 7.5};
    case DType::kF6E3M2: return {3, 2, 3, false, false, 28.0};
    default: return {8, 23, 127, true, false, std::numeric_limits<float>::max()};
  }
}

// Nearest value of the format, ties to even; values past the largest round to infinity (caller decides what that is).
double round_small(const Format& f, double v) {
  if (v == 0 || !std::isfinite(v)) return v;
  const auto cut = [&](double r) {
    return std::fabs(r) > f.largest ? std::copysign(std::numeric_limits<double>::infinity(), v) : r;
  };
  const int lowest = 1 - f.bias;
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  if (static_cast<int>(bits >> 52 & 0x7ff) - 1023 >= lowest) {  // a normal number there: its last bits go
    const int below = 52 - f.mantissa;
    const uint64_t half = (uint64_t{1} << (below - 1)) - 1;
    return cut(std::bit_cast<double>((bits + half + (bits >> below & 1)) >> below << below));
  }
  int e;
  std::frexp(v, &e);  // |v| in [2^(e-1), 2^e)
  const double step = std::ldexp(1.0, std::max(e - 1, lowest) - f.mantissa);
  return cut(std::nearbyint(v / step) * step);
}

uint32_t encode(const Format& f, double v) {  // v is representable, finite
  const uint32_t sign = std::signbit(v) ? 1u << (f.exponent + f.mantissa) : 0;
  v = std::fabs(v);
  if (v == 0) return f.nuz ? 0 : sign;
  int e;
  std::frexp(v, &e);
  e -= 1;
  const int lowest = 1 - f.bias;
  if (e < lowest) return sign | static_cast<uint32_t>(std::ldexp(v, f.mantissa - lowest));
  const double fraction = std::ldexp(v, -e) - 1.0;
  return sign | static_cast<uint32_t>(e + f.bias) << f.mantissa |
         static_cast<uint32_t>(std::ldexp(fraction, f.mantissa));
}

double decode(const Format& f, uint32_t bits) {
  const uint32_t m_mask = (1u << f.mantissa) - 1, e_mask = (1u << f.exponent) - 1;
  const bool negative = bits >> (f.exponent + f.mantissa) & 1;
  const uint32_t e = bits >> f.mantissa & e_mask, m = bits & m_mask;
  double v;
  if (f.nuz && bits == 1u << (f.exponent + f.mantissa)) return std::numeric_limits<double>::quiet_NaN();
  if (f.has_inf && e == e_mask) {
    v = m ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (!f.has_inf && !f.nuz && f.exponent == 4 && e == e_mask && m == m_mask) {
    v = std::numeric_limits<double>::quiet_NaN();
  } else if (e == 0) {
    v = std::ldexp(static_cast<double>(m), 1 - f.bias - f.mantissa);
  } else {
    v = std::ldexp(1.0 + std::ldexp(static_cast<double>(m), -f.mantissa), static_cast<int>(e) - f.bias);
  }
  return negative ? -v : v;
}
}  // namespace

std::string_view dtype_name(DType t) { return row(t).name; }

Result<DType> parse_dtype(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return invalid("unknown element type '%.*s'", static_cast<int>(std::min<size_t>(name.size(), 32)), name.data());
}

int dtype_bits(DType t) { return row(t).bits; }
int dtype_size(DType t) { return row(t).bits % 8 == 0 ? row(t).bits / 8 : 0; }
bool is_float(DType t) { return row(t).floating; }
bool is_integer(DType t) { return row(t).integer; }
bool is_signed(DType t) { return row(t).sign; }
double unit_roundoff(DType t) { return row(t).u; }

Result<int64_t> dtype_bytes(DType t, int64_t count) {
  if (t == DType::kString || t == DType::kInvalid) return invalid("type %s has no fixed size", row(t).name.data());
  if (count < 0) return invalid("a tensor cannot have %lld elements", static_cast<long long>(count));
  int64_t bits;
  if (__builtin_mul_overflow(count, static_cast<int64_t>(row(t).bits), &bits) || bits > INT64_MAX - 7)
    return invalid("a tensor of %lld elements of %s overflows 64 bits", static_cast<long long>(count),
                   row(t).name.data());
  return (bits + 7) / 8;
}

// These two go over all weights and activations of a model in 16 bits, many times in a build: no calls of the library.
float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, rest = h & 0x7fffu;
  if (rest > 0x7c00) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (rest == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u);
  // Exponents are 2^112 apart; a subnormal half is a subnormal float here, and the product is exact.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}
uint16_t f32_to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  constexpr uint32_t kInfinity = 0x7f800000, kTooLarge = 0x477ff000, kMinNormal = 0x38800000;  // 65520, 2^-14
  if (rest > kInfinity) return static_cast<uint16_t>(sign | 0x7e00u);
  if (rest >= kTooLarge) return static_cast<uint16_t>(sign | 0x7c00u);
  if (rest < kMinNormal) {  // a unit of the last place of 0.5 is 2^-24, the step of subnormal halves
    const float at = std::bit_cast<float>(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(at) - std::bit_cast<uint32_t>(0.5f)));
  }
  return static_cast<uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + (rest >> 13 & 1)) >> 13));
}
float bf16_to_f32(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }
uint16_t f32_to_bf16(float v) {
  uint32_t x = std::bit_cast<uint32_t>(v);
  if (std::isnan(v)) return static_cast<uint16_t>(x >> 16 | 0x40);
  return static_cast<uint16_t>((x + 0x7fffu + (x >> 16 & 1)) >> 16);
}

float f8_to_f32(DType t, uint8_t b) {
  if (t == DType::kF8E8M0)
    return b == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(b) - 127);
  return static_cast<float>(decode(format_of(t), b));
}
uint8_t f32_to_f8(DType t, float v, bool saturate) {
  if (t == DType::kF8E8M0) {
    if (std::isnan(v) || v < 0) return 255;
    if (v == 0) return 0;
    if (std::isinf(v)) return saturate ? 254 : 255;
    const double e = std::nearbyint(std::log2(static_cast<double>(v)));
    return static_cast<uint8_t>(std::min(254.0, std::max(0.0, e + 127)));
  }
  const Format f = format_of(t);
  const uint8_t sign = std::signbit(v) ? 0x80 : 0;
  const uint8_t nan = f.nuz ? 0x80 : static_cast<uint8_t>(0x7f | sign);
  if (std::isnan(v)) return nan;
  const double r = round_small(f, v);
  if (std::isinf(r)) {
    if (saturate) return static_cast<uint8_t>(encode(f, std::copysign(f.largest, v)));
    return f.has_inf ? static_cast<uint8_t>(0x7c | sign) : nan;
  }
  return static_cast<uint8_t>(encode(f, r));
}

namespace {
// Formats without infinities and NaN.
uint8_t encode_finite(const Format& f, float v) {
  const double r = std::isnan(v) ? f.largest : round_small(f, v);
  return static_cast<uint8_t>(encode(f, std::isinf(r) ? std::copysign(f.largest, v) : r));
}
}  // namespace

float f4e2m1_to_f32(uint8_t nibble) { return static_cast<float>(decode(format_of(DType::kF4E2M1), nibble & 15u)); }
uint8_t f32_to_f4e2m1(float v) { return encode_finite(format_of(DType::kF4E2M1), v); }
float f6_to_f32(DType t, uint8_t bits) { return static_cast<float>(decode(format_of(t), bits & 63u)); }
uint8_t f32_to_f6(DType t, float v) { return encode_finite(format_of(t), v); }

double round_to(DType t, double v) {
  if (t == DType::kF32) return static_cast<float>(v);
  if (t == DType::kF8E8M0) return f8_to_f32(t, f32_to_f8(t, static_cast<float>(v), true));
  if (t == DType::kF4E2M1) return f4e2m1_to_f32(f32_to_f4e2m1(static_cast<float>(v)));
  if (dtype_bits(t) == 6) return f6_to_f32(t, f32_to_f6(t, static_cast<float>(v)));
  return is_float(t) && t != DType::kF64 ? round_small(format_of(t), v) : v;
}

}  // namespace peri
