// The loops of typed/loops.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.
#include <immintrin.h>

#include "kernels/cpu/typed/loops.hpp"
#include "kernels/cpu/typed/scalars.hpp"

namespace peri::kernels::cpu::typed::PERI_ISA {
namespace {

// A local `n` in every loop: a stored byte could alias run.n, and the loop would not be vectorised.
template <class T, class R, auto F>
void map1(const Run& run) {
  const T* __restrict a = static_cast<const T*>(run.a);
  R* __restrict y = static_cast<R*>(run.y);
  for (int64_t i = 0, n = run.n; i < n; ++i) y[i] = F(a[i]);
}
template <class T, auto F>
void map1_by(const Run& run) {
  const T* __restrict a = static_cast<const T*>(run.a);
  T* __restrict y = static_cast<T*>(run.y);
  const T p = static_cast<T>(run.imm[0]), q = static_cast<T>(run.imm[1]);
  for (int64_t i = 0, n = run.n; i < n; ++i) y[i] = F(a[i], p, q);
}
template <class T, class R, auto F>
void map2(const Run& run) {
  const T* __restrict a = static_cast<const T*>(run.a);
  const T* __restrict b = static_cast<const T*>(run.b);
  R* __restrict y = static_cast<R*>(run.y);
  for (int64_t i = 0, n = run.n; i < n; ++i) y[i] = F(a[i], b[i]);
}
// A truth value for each element: first as wide as the elements, then narrowed; a loop with two widths takes several
// times as long.
template <class T, auto F>
void truths1(const Run& run) {
  using Wide = If<(sizeof(T) == 8), uint64_t, If<(sizeof(T) == 4), uint32_t, uint16_t>>;
  constexpr int64_t kPart = 256;  // at most 2 KiB between two loops, in the first-level cache. Not varied
  const T* __restrict a = static_cast<const T*>(run.a);
  uint8_t* __restrict y = static_cast<uint8_t*>(run.y);
  for (int64_t at = 0; at < run.n; at += kPart) {
    const int64_t n = run.n - at < kPart ? run.n - at : kPart;
    Wide wide[kPart];
    for (int64_t i = 0; i < n; ++i) wide[i] = F(a[at + i]) ? 1 : 0;
    for (int64_t i = 0; i < n; ++i) y[at + i] = static_cast<uint8_t>(wide[i]);
  }
}
template <class T, auto F>
void truths2(const Run& run) {
  using Wide = If<(sizeof(T) == 8), uint64_t, If<(sizeof(T) == 4), uint32_t, uint16_t>>;
  constexpr int64_t kPart = 256;  // at most 2 KiB between two loops, in the first-level cache. Not varied
  const T* __restrict a = static_cast<const T*>(run.a);
  const T* __restrict b = static_cast<const T*>(run.b);
  uint8_t* __restrict y = static_cast<uint8_t*>(run.y);
  for (int64_t at = 0; at < run.n; at += kPart) {
    const int64_t n = run.n - at < kPart ? run.n - at : kPart;
    Wide wide[kPart];
    for (int64_t i = 0; i < n; ++i) wide[i] = F(a[at + i], b[at + i]) ? 1 : 0;
    for (int64_t i = 0; i < n; ++i) y[at + i] = static_cast<uint8_t>(wide[i]);
  }
}
// 0 or 1 from a byte, by a minimum of bytes.
[[gnu::always_inline]] inline uint8_t truth(uint8_t v) { return v < 1 ? v : uint8_t{1}; }
template <class T>
void select(const Run& run) {
  const uint8_t* __restrict a = static_cast<const uint8_t*>(run.a);
  const T* __restrict b = static_cast<const T*>(run.b);
  const T* __restrict c = static_cast<const T*>(run.c);
  T* __restrict y = static_cast<T*>(run.y);
  for (int64_t i = 0, n = run.n; i < n; ++i) y[i] = a[i] != 0 ? b[i] : c[i];
}

// ---- casts ---------------------------------------------------------------------------------------------------------
template <class From, class To>
void cast(const Run& run) {
  map1<From, To, [](From v) { return static_cast<To>(v); }>(run);
}
template <class From>
void cast_to_bool(const Run& run) {
  if constexpr (sizeof(From) > 1)
    truths1<From, [](From v) { return v != 0; }>(run);
  else
    map1<uint8_t, uint8_t, truth>(run);
}
// In parts: most contain only values that one instruction converts.
template <class From, class To>
void cast_to_integer(const Run& run) {
  using Between = If<(sizeof(To) < 8), int32_t, int64_t>;
  constexpr From kEnd = sizeof(To) < 8 ? From(0x1p31) : From(0x1p63);
  constexpr int64_t kPart = 256;  // at most 2 KiB between two loops, in the first-level cache. Not varied
  const From* __restrict a = static_cast<const From*>(run.a);
  To* __restrict y = static_cast<To*>(run.y);
  for (int64_t at = 0; at < run.n; at += kPart) {
    const int64_t n = run.n - at < kPart ? run.n - at : kPart;
    int64_t inside = 0;
    for (int64_t i = 0; i < n; ++i) inside += (a[at + i] < kEnd) & (a[at + i] >= -kEnd);
    if (inside == n)
      for (int64_t i = 0; i < n; ++i) y[at + i] = static_cast<To>(static_cast<Between>(a[at + i]));
    else
      for (int64_t i = 0; i < n; ++i)
        y[at + i] = static_cast<To>(to_bits(a[at + i], sizeof(To) == 8 && To(-1) > To(0)));
  }
}
void widen_f16(const Run& run) {
  const uint16_t* a = static_cast<const uint16_t*>(run.a);
  float* y = static_cast<float*>(run.y);
  int64_t i = 0;
  for (; i + 8 <= run.n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i))));
  for (; i < run.n; ++i) y[i] = _cvtsh_ss(a[i]);
}
void narrow_f16(const Run& run) {
  const float* a = static_cast<const float*>(run.a);
  uint16_t* y = static_cast<uint16_t*>(run.y);
  int64_t i = 0;
  for (; i + 8 <= run.n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), 0));
  for (; i < run.n; ++i) y[i] = _cvtss_sh(a[i], 0);
}
void widen_bf16(const Run& run) {
  map1<uint16_t, uint32_t, [](uint16_t v) { return uint32_t{v} << 16; }>(run);
}
void narrow_bf16(const Run& run) {
  map1<uint32_t, uint16_t, [](uint32_t v) {
    const uint32_t high = (v >> 16), rounded = ((v + 0x7FFF + (high & 1)) >> 16), quiet = high | 0x40;
    return static_cast<uint16_t>(((v & 0x7FFFFFFF) > 0x7F800000) ? quiet : rounded);
  }>(run);
}

// Through a float32 whose last bit records whether any bits were lost: the second rounding is then the only one.
template <void (*kNarrow)(const Run&)>
void narrow_f64(const Run& run) {
  constexpr int64_t kPart = 256;  // at most 2 KiB between two loops, in the first-level cache. Not varied
  const double* __restrict a = static_cast<const double*>(run.a);
  uint16_t* const y = static_cast<uint16_t*>(run.y);
  for (int64_t at = 0; at < run.n; at += kPart) {
    const int64_t n = run.n - at < kPart ? run.n - at : kPart;
    float odd[kPart];
    for (int64_t i = 0; i < n; ++i) {
      const double v = a[at + i], near = static_cast<double>(static_cast<float>(v));
      const double size = v < 0 ? -v : v, rounded = near < 0 ? -near : near;
      const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(v));
      odd[i] = __builtin_bit_cast(float, (bits - (rounded > size)) | (near != v));
    }
    kNarrow({odd, nullptr, nullptr, y + at, n, nullptr});
  }
}

template <class From, class To>
constexpr Loop integer_cast() {
  if constexpr (From(0.5) != From(0)) return cast_to_integer<From, To>;
  return cast<From, To>;
}
template <class From>
Loop cast_from(Elem to) {
  switch (to) {
    case Elem::kF32: return cast<From, float>;
    case Elem::kF64: return cast<From, double>;
    case Elem::kI8: return integer_cast<From, int8_t>();
    case Elem::kI16: return integer_cast<From, int16_t>();
    case Elem::kI32: return integer_cast<From, int32_t>();
    case Elem::kI64: return integer_cast<From, int64_t>();
    case Elem::kU8: return integer_cast<From, uint8_t>();
    case Elem::kU16: return integer_cast<From, uint16_t>();
    case Elem::kU32: return integer_cast<From, uint32_t>();
    case Elem::kU64: return integer_cast<From, uint64_t>();
    case Elem::kBool: return cast_to_bool<From>;
    default: return nullptr;
  }
}
Loop find_cast(Elem of, Elem to) {
  switch (of) {
    case Elem::kF32: return to == Elem::kF16 ? narrow_f16 : to == Elem::kBF16 ? narrow_bf16 : cast_from<float>(to);
    case Elem::kF64:
      return to == Elem::kF16    ? narrow_f64<narrow_f16>
             : to == Elem::kBF16 ? narrow_f64<narrow_bf16>
                                 : cast_from<double>(to);
    case Elem::kF16: return to == Elem::kF32 ? widen_f16 : nullptr;
    case Elem::kBF16: return to == Elem::kF32 ? widen_bf16 : nullptr;
    case Elem::kI8: return cast_from<int8_t>(to);
    case Elem::kI16: return cast_from<int16_t>(to);
    case Elem::kI32: return cast_from<int32_t>(to);
    case Elem::kI64: return cast_from<int64_t>(to);
    case Elem::kU8:
    case Elem::kBool: return cast_from<uint8_t>(to);
    case Elem::kU16: return cast_from<uint16_t>(to);
    case Elem::kU32: return cast_from<uint32_t>(to);
    case Elem::kU64: return cast_from<uint64_t>(to);
  }
  return nullptr;
}

// ---- numbers -------------------------------------------------------------------------------------------------------
// Operations whose bits do not depend on the sign use the unsigned type.
template <class U>
Loop find_bits(Op op) {
  switch (op) {
    case Op::kAdd: return map2<U, U, [](U a, U b) { return static_cast<U>(a + b); }>;
    case Op::kSub: return map2<U, U, [](U a, U b) { return static_cast<U>(a - b); }>;
    case Op::kMul: return map2<U, U, [](U a, U b) { return static_cast<U>(uint64_t{a} * b); }>;
    case Op::kBitAnd: return map2<U, U, [](U a, U b) { return static_cast<U>(a & b); }>;
    case Op::kBitOr: return map2<U, U, [](U a, U b) { return static_cast<U>(a | b); }>;
    case Op::kBitXor: return map2<U, U, [](U a, U b) { return static_cast<U>(a ^ b); }>;
    case Op::kBitNot: return map1<U, U, [](U a) { return static_cast<U>(~a); }>;
    case Op::kNeg: return map1<U, U, [](U a) { return static_cast<U>(U{0} - a); }>;
    case Op::kEq: return truths2<U, [](U a, U b) { return a == b; }>;
    case Op::kSelect: return select<U>;
    default: return nullptr;
  }
}
template <class T>
Loop find_order(Op op) {
  switch (op) {
    case Op::kLt: return truths2<T, [](T a, T b) { return a < b; }>;
    case Op::kLe: return truths2<T, [](T a, T b) { return a <= b; }>;
    case Op::kGt: return truths2<T, [](T a, T b) { return (a > b); }>;
    case Op::kGe: return truths2<T, [](T a, T b) { return (a >= b); }>;
    case Op::kMax: return map2<T, T, [](T a, T b) { return ((a > b) | (a != a)) ? a : b; }>;
    case Op::kMin: return map2<T, T, [](T a, T b) { return ((a < b) | (a != a)) ? a : b; }>;
    case Op::kRelu: return map1<T, T, [](T a) { return a < T(0) ? T(0) : a; }>;
    default: return nullptr;
  }
}
template <class T, class U>
Loop find_integer(Op op) {
  switch (op) {
    case Op::kDiv: return map2<T, T, divided<T>>;
    case Op::kMod: return map2<T, T, remainder_of<T, false>>;
    case Op::kFmod: return map2<T, T, remainder_of<T, true>>;
    case Op::kPRelu: return map2<T, T, [](T a, T b) { return a < 0 ? static_cast<T>(uint64_t(a) * uint64_t(b)) : a; }>;
    case Op::kShiftLeft: return map2<T, T, shifted<T, U, true>>;
    case Op::kShiftRight: return map2<T, T, shifted<T, U, false>>;
    case Op::kAbs: return map1<T, T, [](T a) { return a < 0 ? static_cast<T>(U{0} - static_cast<U>(a)) : a; }>;
    case Op::kSign: return map1<T, T, [](T a) { return static_cast<T>((a > 0) - (a < 0)); }>;
    default: break;
  }
  if (const Loop order = find_order<T>(op)) return order;
  return find_bits<U>(op);
}
// Integer powers, which wrap; of a negative exponent the integer part of the fraction.
inline int64_t whole_power(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;
  uint64_t out = 1, square = static_cast<uint64_t>(x);
  for (; y != 0; y >>= 1, square *= square)
    if ((y & 1) != 0) out *= square;
  return static_cast<int64_t>(out);
}
// Usually all of a part has one exponent: its bits are iterated once, for all elements together.
void whole_powers(const Run& run) {
  constexpr int64_t kPart = 256;  // at most 2 KiB between two loops, in the first-level cache. Not varied
  const int64_t* __restrict a = static_cast<const int64_t*>(run.a);
  const int64_t* __restrict b = static_cast<const int64_t*>(run.b);
  int64_t* __restrict y = static_cast<int64_t*>(run.y);
  for (int64_t at = 0; at < run.n; at += kPart) {
    const int64_t n = run.n - at < kPart ? run.n - at : kPart, first = b[at];
    int64_t others = first < 0;
    for (int64_t i = 0; i < n; ++i) others |= b[at + i] != first;
    if (others != 0) {
      for (int64_t i = 0; i < n; ++i) y[at + i] = whole_power(a[at + i], b[at + i]);
      continue;
    }
    uint64_t out[kPart], square[kPart];
    for (int64_t i = 0; i < n; ++i) {
      out[i] = 1;
      square[i] = static_cast<uint64_t>(a[at + i]);
    }
    for (int64_t bits = first; bits != 0; bits >>= 1) {
      if ((bits & 1) != 0)
        for (int64_t i = 0; i < n; ++i) out[i] *= square[i];
      if (bits > 1)
        for (int64_t i = 0; i < n; ++i) square[i] *= square[i];
    }
    for (int64_t i = 0; i < n; ++i) y[at + i] = static_cast<int64_t>(out[i]);
  }
}

Loop find_bool(Op op) {
  using B = uint8_t;
  switch (op) {
    case Op::kAnd: return map2<B, B, [](B a, B b) { return static_cast<B>(truth(a) & truth(b)); }>;
    case Op::kOr: return map2<B, B, [](B a, B b) { return truth(static_cast<B>(a | b)); }>;
    case Op::kXor: return map2<B, B, [](B a, B b) { return static_cast<B>(truth(a) ^ truth(b)); }>;
    case Op::kEq: return map2<B, B, [](B a, B b) { return static_cast<B>(truth(a) ^ truth(b) ^ 1); }>;
    case Op::kNot: return map1<B, B, [](B a) { return static_cast<B>(truth(a) ^ 1); }>;
    case Op::kSelect: return select<B>;
    default: return nullptr;
  }
}

template <class T>
Loop find_float_arithmetic(Op op) {
  switch (op) {
    case Op::kAdd: return map2<T, T, [](T a, T b) { return a + b; }>;
    case Op::kSub: return map2<T, T, [](T a, T b) { return a - b; }>;
    case Op::kMul: return map2<T, T, [](T a, T b) { return a * b; }>;
    case Op::kDiv: return map2<T, T, [](T a, T b) { return a / b; }>;
    case Op::kMod: return map2<T, T, float_remainder<T, false>>;
    case Op::kFmod: return map2<T, T, float_remainder<T, true>>;
    case Op::kPRelu: return map2<T, T, [](T a, T b) { return a < 0 ? a * b : a; }>;
    case Op::kEq: return truths2<T, [](T a, T b) { return a == b; }>;
    case Op::kNeg: return map1<T, T, [](T a) { return -a; }>;
    case Op::kAbs: return map1<T, T, [](T a) { return a < 0 ? -a : a == 0 ? T(0) : a; }>;
    case Op::kSign: return map1<T, T, [](T a) { return (a > 0) ? T(1) : a < 0 ? T(-1) : a; }>;
    case Op::kScale: return map1_by<T, [](T a, T p, T) { return a * p; }>;
    case Op::kThresholded: return map1_by<T, [](T a, T p, T) { return (a > p) ? a : T(0); }>;
    case Op::kShrink: return map1_by<T, [](T a, T p, T q) { return a < -q ? a + p : (a > q) ? a - p : T(0); }>;
    case Op::kLeaky: return map1_by<T, [](T a, T p, T) { return a < 0 ? a * p : a; }>;
    case Op::kElu: return map1_by<T, [](T a, T p, T q) { return a < 0 ? p * q * expm1_of(a) : a * q; }>;
    case Op::kSqrt: return map1<T, T, [](T a) { return sqrt_of(a); }>;
    case Op::kReciprocal: return map1<T, T, [](T a) { return 1 / a; }>;
    case Op::kRound: return map1<T, T, [](T a) { return rint_of(a); }>;
    case Op::kFloor: return map1<T, T, [](T a) { return floor_of(a); }>;
    case Op::kCeil: return map1<T, T, [](T a) { return ceil_of(a); }>;
    case Op::kIsNan: return truths1<T, [](T a) { return a != a; }>;
    default: return find_order<T>(op);
  }
}
template <class T>
void is_inf(const Run& run) {
  constexpr T kInf = static_cast<T>(__builtin_inf());
  if (run.imm[0] != 0 && run.imm[1] != 0)
    truths1<T, [](T a) { return ((a == kInf) | (a == -kInf)) != 0; }>(run);
  else if (run.imm[0] != 0)
    truths1<T, [](T a) { return a == kInf; }>(run);
  else if (run.imm[1] != 0)
    truths1<T, [](T a) { return a == -kInf; }>(run);
  else
    truths1<T, [](T) { return false; }>(run);
}
// In parts: the roots of a part first, since a single square root would set errno.
template <auto F>
void arc(const Run& run) {
  constexpr int64_t kPart = 256;  // at most 2 KiB between two loops, in the first-level cache. Not varied
  const float* __restrict a = static_cast<const float*>(run.a);
  float* __restrict y = static_cast<float*>(run.y);
  for (int64_t at = 0; at < run.n; at += kPart) {
    alignas(32) float root[kPart] = {};
    const int64_t n = run.n - at < kPart ? run.n - at : kPart;
    for (int64_t i = 0; i < n; ++i) root[i] = 0.5F * (1 - (a[at + i] < 0 ? -a[at + i] : a[at + i]));
    for (int64_t i = 0; i < kPart; i += 8) _mm256_store_ps(root + i, _mm256_sqrt_ps(_mm256_load_ps(root + i)));
    for (int64_t i = 0; i < n; ++i) y[at + i] = F(a[at + i], root[i]);
  }
}
template <class T>
Loop find_arc(Op op) {
  if constexpr (sizeof(T) == 4) return op == Op::kAsin ? arc<asin_by> : arc<acos_by>;
  return op == Op::kAsin ? map1<T, T, [](T a) { return asin_of(a); }> : map1<T, T, [](T a) { return acos_of(a); }>;
}
template <class T>
Loop find_function(Op op) {
  switch (op) {
    case Op::kPow: return map2<T, T, [](T a, T b) { return pow_of(a, b); }>;
    case Op::kExp: return map1<T, T, [](T a) { return exp_of(a); }>;
    case Op::kLog: return map1<T, T, [](T a) { return log_of(a); }>;
    case Op::kTanh: return map1<T, T, [](T a) { return tanh_of(a); }>;
    case Op::kErf: return map1<T, T, [](T a) { return erf_of(a); }>;
    case Op::kSigmoid: return map1<T, T, [](T a) { return 1 / (1 + exp_of(-a)); }>;
    case Op::kSoftplus:
      return map1<T, T, [](T a) { return ((a > 0) ? a : T(0)) + log1p_of(exp_of((a > 0) ? -a : a)); }>;
    case Op::kSoftsign: return map1<T, T, [](T a) { return a / (1 + (a < 0 ? -a : a)); }>;
    case Op::kSin: return map1<T, T, [](T a) { return sin_of(a); }>;
    case Op::kCos: return map1<T, T, [](T a) { return cos_of(a); }>;
    case Op::kTan: return map1<T, T, [](T a) { return tan_of(a); }>;
    case Op::kAsin:
    case Op::kAcos: return find_arc<T>(op);
    case Op::kAtan: return map1<T, T, [](T a) { return atan_of(a); }>;
    case Op::kSinh: return map1<T, T, [](T a) { return sinh_of(a); }>;
    case Op::kCosh: return map1<T, T, [](T a) { return cosh_of(a); }>;
    case Op::kAsinh: return map1<T, T, [](T a) { return asinh_of(a); }>;
    case Op::kAcosh: return map1<T, T, [](T a) { return acosh_of(a); }>;
    case Op::kAtanh: return map1<T, T, [](T a) { return atanh_of(a); }>;
    case Op::kIsInf: return is_inf<T>;
    default: return find_float_arithmetic<T>(op);
  }
}

Loop find_own(Op op, Elem of) {
  switch (of) {
    case Elem::kF32: return op == Op::kSelect ? select<uint32_t> : find_function<float>(op);
    case Elem::kF64: return op == Op::kSelect ? select<uint64_t> : find_function<double>(op);
    case Elem::kF16:
    case Elem::kBF16: return op == Op::kSelect ? select<uint16_t> : nullptr;
    case Elem::kI8: return find_integer<int8_t, uint8_t>(op);
    case Elem::kI16: return find_integer<int16_t, uint16_t>(op);
    case Elem::kI32: return find_integer<int32_t, uint32_t>(op);
    case Elem::kI64: return op == Op::kPow ? whole_powers : find_integer<int64_t, uint64_t>(op);
    case Elem::kU8: return find_integer<uint8_t, uint8_t>(op);
    case Elem::kU16: return find_integer<uint16_t, uint16_t>(op);
    case Elem::kU32: return find_integer<uint32_t, uint32_t>(op);
    case Elem::kU64: return find_integer<uint64_t, uint64_t>(op);
    case Elem::kBool: return find_bool(op);
  }
  return nullptr;
}
}  // namespace

Loop find(Op op, Elem of, Elem to) { return op == Op::kCast ? find_cast(of, to) : find_own(op, of); }

}  // namespace peri::kernels::cpu::typed::PERI_ISA
