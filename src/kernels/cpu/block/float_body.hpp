// Float loops of block code, written once; included by float_avx2.cpp and float_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/block/loops.hpp"
#include "kernels/cpu/simd/arrays.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::block::PERI_ISA {

using simd::PERI_ISA::F32;
using simd::PERI_ISA::M32;

// One float op as a type with a call operator, so that loops over it are plain functions.
#define PERI_UNARY(NAME, EXPR)                                 \
  struct NAME {                                                \
    PERI_SIMD_MEMBER static F32 run(F32 x, const float* imm) { \
      (void)imm;                                               \
      return EXPR;                                             \
    }                                                          \
  };
PERI_UNARY(Sqrt, sqrt(x))
PERI_UNARY(Rsqrt, F32::set1(1.0f) / sqrt(x))
PERI_UNARY(Reciprocal, F32::set1(1.0f) / x)
PERI_UNARY(Exp, simd::exp(x))
PERI_UNARY(Expm1, simd::expm1(x))
PERI_UNARY(Log, simd::log(x))
PERI_UNARY(Tanh, simd::tanh(x))
PERI_UNARY(Erf, simd::erf(x))
PERI_UNARY(Sigmoid, simd::sigmoid(x))
PERI_UNARY(Sin, simd::sin(x))
PERI_UNARY(Cos, simd::cos(x))
PERI_UNARY(Round, round(x))
PERI_UNARY(Floor, floor(x))
PERI_UNARY(Ceil, ceil(x))
PERI_UNARY(Trunc, trunc(x))
PERI_UNARY(Sign, select(eq(x, F32::zero()) | is_nan(x), x + F32::zero(), simd::copy_sign(F32::set1(1.0f), x)))
PERI_UNARY(Relu, simd::relu(x))
PERI_UNARY(Silu, simd::silu(x))
PERI_UNARY(Gelu, simd::gelu_erf(x))
PERI_UNARY(GeluTanh, simd::gelu_tanh(x))
PERI_UNARY(HardSwish, simd::hard_swish(x))
PERI_UNARY(Softplus, simd::softplus(x))
PERI_UNARY(Mish, x* simd::tanh(simd::softplus(x)))
PERI_UNARY(Square, x* x)
PERI_UNARY(LeakyRelu, select(lt(x, F32::zero()), x* F32::set1(imm[0]), x))
PERI_UNARY(Elu, select(lt(x, F32::zero()), F32::set1(imm[0]) * simd::expm1(x), x))
PERI_UNARY(HardSigmoid, simd::hard_sigmoid(x, F32::set1(imm[0]), F32::set1(imm[1])))
PERI_UNARY(Clip, min_second(F32::set1(imm[1]), max_second(F32::set1(imm[0]), x)))
PERI_UNARY(Neg, -x)
PERI_UNARY(Abs, abs(x))
#undef PERI_UNARY

#define PERI_BINARY(NAME, EXPR)                                    \
  struct NAME {                                                    \
    PERI_SIMD_MEMBER static F32 run(F32 x, F32 y) { return EXPR; } \
  };
PERI_BINARY(Add, x + y)
PERI_BINARY(Sub, x - y)
PERI_BINARY(Mul, x* y)
PERI_BINARY(Div, x / y)
PERI_BINARY(Max, max(x, y))
PERI_BINARY(Min, min(x, y))
PERI_BINARY(Pow, simd::pow(x, y))
PERI_BINARY(PRelu, select(lt(x, F32::zero()), x* y, x))
#undef PERI_BINARY

#define PERI_TEST2(NAME, EXPR)                                     \
  struct NAME {                                                    \
    PERI_SIMD_MEMBER static M32 run(F32 x, F32 y) { return EXPR; } \
  };
PERI_TEST2(Eq, eq(x, y))
PERI_TEST2(Ne, ne(x, y))
PERI_TEST2(Lt, lt(x, y))
PERI_TEST2(Le, le(x, y))
PERI_TEST2(Gt, gt(x, y))
PERI_TEST2(Ge, ge(x, y))
#undef PERI_TEST2

// A float operand: a vector from the tile, the first lanes of its tail, or one value in all lanes.
template <bool kScalar>
struct Operand {
  const float* p;
  F32 all;
  PERI_SIMD_MEMBER explicit Operand(const void* q) : p(static_cast<const float*>(q)), all(F32::zero()) {
    if constexpr (kScalar) all = F32::set1(*p);
  }
  PERI_SIMD_MEMBER F32 at(int64_t i) const {
    if constexpr (kScalar) return all;
    return F32::load(p + i);
  }
  PERI_SIMD_MEMBER F32 tail(int64_t i, int64_t n) const {
    if constexpr (kScalar) return all;
    return F32::load_n(p + i, n);
  }
};

template <class F>
void unary(const Call& call, int64_t n) {
  const Operand<false> a(call.a);
  float* dst = static_cast<float*>(call.dst);
  const float imm[2] = {call.imm[0], call.imm[1]};
  int64_t i = 0;
  for (; i + 2 * F32::kLanes <= n; i += 2 * F32::kLanes) {
    const F32 x = F::run(a.at(i), imm), y = F::run(a.at(i + F32::kLanes), imm);
    store(dst + i, x);
    store(dst + i + F32::kLanes, y);
  }
  for (; i < n; i += F32::kLanes) store_n(dst + i, F::run(a.tail(i, n - i), imm), n - i);
}

template <class F, bool kA, bool kB>
void binary(const Call& call, int64_t n) {
  const Operand<kA> a(call.a);
  const Operand<kB> b(call.b);
  float* dst = static_cast<float*>(call.dst);
  int64_t i = 0;
  for (; i + 2 * F32::kLanes <= n; i += 2 * F32::kLanes) {
    const F32 x = F::run(a.at(i), b.at(i)), y = F::run(a.at(i + F32::kLanes), b.at(i + F32::kLanes));
    store(dst + i, x);
    store(dst + i + F32::kLanes, y);
  }
  for (; i < n; i += F32::kLanes) store_n(dst + i, F::run(a.tail(i, n - i), b.tail(i, n - i)), n - i);
}

PERI_SIMD void store_bools(uint8_t* p, M32 m, int64_t n) {
  if (n >= F32::kLanes) return store_bool(p, m);
  uint8_t bytes[F32::kLanes];
  store_bool(bytes, m);
  for (int64_t k = 0; k < n; ++k) p[k] = bytes[k];
}
PERI_SIMD M32 load_bools(const uint8_t* p, int64_t n) {
  if (n >= F32::kLanes) return simd::PERI_ISA::load_bool(p);
  uint8_t bytes[F32::kLanes] = {};
  for (int64_t k = 0; k < n; ++k) bytes[k] = p[k];
  return simd::PERI_ISA::load_bool(bytes);
}

template <class F, bool kA, bool kB>
void test2(const Call& call, int64_t n) {
  const Operand<kA> a(call.a);
  const Operand<kB> b(call.b);
  uint8_t* dst = static_cast<uint8_t*>(call.dst);
  for (int64_t i = 0; i < n; i += F32::kLanes) store_bools(dst + i, F::run(a.tail(i, n - i), b.tail(i, n - i)), n - i);
}

template <bool kB, bool kC>
void select_float(const Call& call, int64_t n) {
  const uint8_t* a = static_cast<const uint8_t*>(call.a);
  const Operand<kB> b(call.b);
  const Operand<kC> c(call.c);
  float* dst = static_cast<float*>(call.dst);
  for (int64_t i = 0; i < n; i += F32::kLanes)
    store_n(dst + i, select(load_bools(a + i, n - i), b.tail(i, n - i), c.tail(i, n - i)), n - i);
}

template <class F>
Kernel pick2(int scalars) {
  switch (scalars) {
    case 0: return binary<F, false, false>;
    case 1: return binary<F, true, false>;
    case 2: return binary<F, false, true>;
    default: return nullptr;
  }
}
template <class F>
Kernel pick_test(int scalars) {
  switch (scalars) {
    case 0: return test2<F, false, false>;
    case 1: return test2<F, true, false>;
    case 2: return test2<F, false, true>;
    default: return nullptr;
  }
}
Kernel find_unary(Op op) {
  switch (op) {
    case Op::kSqrt: return unary<Sqrt>;
    case Op::kRsqrt: return unary<Rsqrt>;
    case Op::kReciprocal: return unary<Reciprocal>;
    case Op::kExp: return unary<Exp>;
    case Op::kExpm1: return unary<Expm1>;
    case Op::kLog: return unary<Log>;
    case Op::kTanh: return unary<Tanh>;
    case Op::kErf: return unary<Erf>;
    case Op::kSigmoid: return unary<Sigmoid>;
    case Op::kSin: return unary<Sin>;
    case Op::kCos: return unary<Cos>;
    case Op::kRound: return unary<Round>;
    case Op::kFloor: return unary<Floor>;
    case Op::kCeil: return unary<Ceil>;
    case Op::kTrunc: return unary<Trunc>;
    case Op::kSign: return unary<Sign>;
    case Op::kRelu: return unary<Relu>;
    case Op::kSilu: return unary<Silu>;
    case Op::kGelu: return unary<Gelu>;
    case Op::kGeluTanh: return unary<GeluTanh>;
    case Op::kHardSwish: return unary<HardSwish>;
    case Op::kSoftplus: return unary<Softplus>;
    case Op::kMish: return unary<Mish>;
    case Op::kSquare: return unary<Square>;
    case Op::kLeakyRelu: return unary<LeakyRelu>;
    case Op::kElu: return unary<Elu>;
    case Op::kHardSigmoid: return unary<HardSigmoid>;
    case Op::kClip: return unary<Clip>;
    case Op::kNeg: return unary<Neg>;
    case Op::kAbs: return unary<Abs>;
    default: return nullptr;
  }
}

Kernel find_float(const Key& key) {
  switch (key.op) {
    case Op::kAdd: return pick2<Add>(key.scalars);
    case Op::kSub: return pick2<Sub>(key.scalars);
    case Op::kMul: return pick2<Mul>(key.scalars);
    case Op::kDiv: return pick2<Div>(key.scalars);
    case Op::kMax: return pick2<Max>(key.scalars);
    case Op::kMin: return pick2<Min>(key.scalars);
    case Op::kPow: return pick2<Pow>(key.scalars);
    case Op::kPRelu: return pick2<PRelu>(key.scalars);
    case Op::kEq: return pick_test<Eq>(key.scalars);
    case Op::kNe: return pick_test<Ne>(key.scalars);
    case Op::kLt: return pick_test<Lt>(key.scalars);
    case Op::kLe: return pick_test<Le>(key.scalars);
    case Op::kGt: return pick_test<Gt>(key.scalars);
    case Op::kGe: return pick_test<Ge>(key.scalars);
    case Op::kSelect:
      switch (key.scalars) {
        case 0: return select_float<false, false>;
        case 2: return select_float<true, false>;
        case 4: return select_float<false, true>;
        case 6: return select_float<true, true>;
        default: return nullptr;
      }
    default: return key.scalars == 0 ? find_unary(key.op) : nullptr;
  }
}

void load_f16(const void* from, void* to, int64_t n) {
  simd::PERI_ISA::from_f16(static_cast<const uint16_t*>(from), static_cast<float*>(to), n);
}
void load_bf16(const void* from, void* to, int64_t n) {
  simd::PERI_ISA::from_bf16(static_cast<const uint16_t*>(from), static_cast<float*>(to), n);
}
void store_f16(const void* from, void* to, int64_t n) {
  simd::PERI_ISA::to_f16(static_cast<const float*>(from), static_cast<uint16_t*>(to), n);
}
void store_bf16(const void* from, void* to, int64_t n) {
  simd::PERI_ISA::to_bf16(static_cast<const float*>(from), static_cast<uint16_t*>(to), n);
}

template <class From, class To>
void convert_integers(const void* from, void* to, int64_t n) {
  const From* const a = static_cast<const From*>(from);
  To* const b = static_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) b[i] = static_cast<To>(a[i]);
}

void i32_to_f32(const Call& call, int64_t n) {
  const int32_t* const a = static_cast<const int32_t*>(call.a);
  float* const dst = static_cast<float*>(call.dst);
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<float>(a[i]);
}
// Towards zero; NaN is 0, values out of range become the nearest limit.
void f32_to_i32(const Call& call, int64_t n) {
  constexpr float kBelow = -2147483648.0F, kMaxInt32 = 2147483520.0F;  // the largest float below 2^31
  const float* const a = static_cast<const float*>(call.a);
  int32_t* const dst = static_cast<int32_t*>(call.dst);
  for (int64_t i = 0; i < n; ++i) {
    const float v = a[i], low = v < kBelow ? kBelow : v, kept = low > kMaxInt32 ? kMaxInt32 : low;
    const int32_t whole = static_cast<int32_t>(kept == kept ? kept : 0.0F);
    dst[i] = v > kMaxInt32 ? INT32_MAX : whole;
  }
}
Kernel find_cast(const Key& key) {
  if (key.op != Op::kCast || key.scalars != 0) return nullptr;
  if (key.type == Type::kI32 && key.to == Type::kF32) return i32_to_f32;
  return key.type == Type::kF32 && key.to == Type::kI32 ? f32_to_i32 : nullptr;
}

}  // namespace peri::kernels::cpu::block::PERI_ISA
