// Element-wise loops over runs of any element type, per instruction set, for what block code, with its float32
// registers, cannot do. Plain types only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::typed {

enum class Elem : uint8_t { kF32, kF64, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kBool };

enum class Op : uint8_t {
  kCast,    // to an integer as Cast defines it: towards zero, then modulo 2^width
  kSelect,  // bool, T, T
  // T, T -> T; integers wrap, division by zero gives 0, max and min keep NaN
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,   // with the sign of the divisor
  kFmod,  // with the sign of the dividend
  kMax,
  kMin,
  kPow,  // floats, and i64
  kPRelu,
  kEq,  // T, T -> bool
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,  // bools
  kOr,
  kXor,
  kBitAnd,  // integers
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
  kNot,  // T -> T
  kBitNot,
  kNeg,
  kAbs,
  kSign,
  kRelu,
  kScale,        // times imm[0]
  kThresholded,  // above imm[0], else 0
  kShrink,       // bias imm[0], lambd imm[1]
  kLeaky,        // slope imm[0]
  kElu,          // times imm[0] below zero, the result times imm[1]
  kSqrt,         // floats
  kReciprocal,
  kExp,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kSoftplus,
  kSoftsign,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kRound,
  kFloor,
  kCeil,
  kIsNan,  // float -> bool
  kIsInf,  // imm[0]: detects positive, imm[1]: negative infinity
};

struct Run {
  const void *a, *b, *c;
  void* y;
  int64_t n;
  const double* imm;
};
using Loop = void (*)(const Run& run);

// The loop of `op` on elements `of` with results `to`; null: not available. 16-bit floats are only cast to and from
// float32, and selected.
namespace avx2 {
Loop find(Op op, Elem of, Elem to);
}
namespace avx512 {
Loop find(Op op, Elem of, Elem to);
}

}  // namespace peri::kernels::cpu::typed
