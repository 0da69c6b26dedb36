// The ops and register types of block code: plain enums, so that sources by instruction set may see them.
#pragma once

#include <cstdint>

namespace peri::kernels::block {

// The type of a register. Inputs f32, f16, bf16, f64 load as kF32 (f64 is rounded); i8, u8, i16, u16, i32 as kI32; i64
// as kI64; bool as kBool (one byte, 0 or 1). Outputs convert back from the same register type; integers wrap.
enum class Type : uint8_t { kF32, kI32, kI64, kBool };

enum class Op : uint8_t {
  kLoad,
  kConst,
  kStore,
  // f32 -> f32
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kExpm1,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kSin,
  kCos,
  kRound,
  kFloor,
  kCeil,
  kTrunc,
  kSign,
  kRelu,
  kSilu,
  kGelu,
  kGeluTanh,
  kHardSwish,
  kSoftplus,
  kMish,
  kSquare,
  kLeakyRelu,
  kElu,
  kHardSigmoid,
  kClip,  // with immediates: alpha; alpha; alpha, beta; low, high
  kNeg,
  kAbs,  // also i32, i64
  kIsNan,
  kIsInf,  // f32 -> bool
  kNot,    // bool -> bool
  kCast,   // any -> the type named (f32 to integer: towards zero, saturating, NaN is 0)
  kAdd,
  kSub,
  kMul,
  kMax,
  kMin,  // same types; f32, i32, i64. Max and min keep NaN
  kDiv,
  kPow,
  kPRelu,  // f32; prelu x slope
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,  // same types -> bool
  kAnd,
  kOr,
  kXor,     // bool
  kMulAdd,  // f32: a*b + c, rounded once
  kSelect,  // bool, T, T -> T
  kReduceSum,
  kReduceMean,
  kReduceMax,
  kReduceMin,
  kReduceProd,
  kReduceSumSquare,
  kReduceL2,
  kReduceLogSumExp,  // f32
};
constexpr int kOpCount = static_cast<int>(Op::kReduceLogSumExp) + 1;

}  // namespace peri::kernels::block
