// A block program: a fused chain of element-wise ops, and reductions over trailing dims, as a list of instructions of a
// small register machine. Plain data with a text form that parses back; verify() says whether it may be run at all, so a
// program from a hostile file is as safe as our own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/result.hpp"

namespace peri::kernels::cpu::block {

// What a register holds. Inputs f32, f16, bf16, f64 load as kF32 (f64 rounds); i8, u8, i16, u16, i32 as kI32; i64 as
// kI64; bool as kBool (one byte, 0 or 1). Outputs convert back from the same register type; integers wrap.
enum class Type : uint8_t { kF32, kI32, kI64, kBool };

enum class Op : uint8_t {
  kLoad, kConst, kStore,
  // f32 -> f32
  kSqrt, kRsqrt, kReciprocal, kExp, kExpm1, kLog, kTanh, kErf, kSigmoid, kSin, kCos, kRound, kFloor, kCeil, kTrunc,
  kSign, kRelu, kSilu, kGelu, kGeluTanh, kHardSwish, kSoftplus, kMish, kSquare,
  kLeakyRelu, kElu, kHardSigmoid, kClip,  // with immediates: alpha; alpha; alpha, beta; low, high
  kNeg, kAbs,                             // also i32, i64
  kIsNan, kIsInf,                         // f32 -> bool
  kNot,                                   // bool -> bool
  kCast,                                  // any -> the type named (f32 to integer: towards zero, saturating, NaN is 0)
  kAdd, kSub, kMul, kMax, kMin,           // same types; f32, i32, i64. Max and min keep NaN
  kDiv, kPow, kPRelu,                     // f32; prelu x slope
  kEq, kNe, kLt, kLe, kGt, kGe,           // same types -> bool
  kAnd, kOr, kXor,                        // bool
  kMulAdd,                                // f32: a*b + c, rounded once
  kSelect,                                // bool, T, T -> T
  kReduceSum, kReduceMean, kReduceMax, kReduceMin, kReduceProd, kReduceSumSquare, kReduceL2, kReduceLogSumExp,  // f32
};
constexpr int kOpCount = static_cast<int>(Op::kReduceLogSumExp) + 1;

// The word of the text form, and how many registers and immediates follow.
struct OpRow {
  Op op;
  std::string_view name;
  int registers;
  int immediates;
};
const OpRow& op_row(Op op);
bool is_reduction(Op op);
std::string_view type_name(Type type);  // "f32", "i32", "i64", "bool"
int type_size(Type type);               // bytes of an element in a register

// `index` is the input of a load, or the output of a store or reduction; `type` is the result's (verify() fills it in).
// Instruction i of the value-making ones defines register i': registers are numbered in order and assigned once.
struct Instruction {
  Op op = Op::kLoad;
  Type type = Type::kF32;
  int dst = -1;
  int src[3] = {-1, -1, -1};
  int index = -1;
  float imm[2] = {0, 0};
  int64_t whole = 0;  // value of an integer or bool constant
};

struct Program {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  std::vector<Instruction> code;
  int registers() const;
};

constexpr int kMaxInstructions = 4096, kMaxArguments = 64;

// Fills in the types; an error for anything run_task() could not execute safely: a register read before it is set or
// set twice, an argument out of range, types that do not fit, an output stored never or twice, stores of whole elements
// and reductions to one output, unsupported dtypes, too long.
Status verify(Program* program);

// "in f32 f16; out f32; r0=load 0; r1=load 1; r2=add r0 r1; r3=tanh r2; store 0 r3". Constants: "r1=const.f32 0.5",
// casts "r2=cast.i64 r1", reductions "reduce.sum 0 r3", immediates follow the registers: "r1=clip r0 0 6".
std::string print(const Program& program);
// The verified program, or an error that names the instruction.
Result<Program> parse(std::string_view text);

}  // namespace peri::kernels::cpu::block
