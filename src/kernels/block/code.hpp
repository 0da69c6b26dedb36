// Block code: a fused chain of element-wise ops, and reductions over trailing dims, as a list of instructions of a
// small register machine. Plain data with a text form that parses back; verify() decides whether it may be executed at
// all, so that code from an untrusted file is as safe as our own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/result.hpp"
#include "kernels/block/op.hpp"

namespace peri::kernels::block {

// The name in the text form, and the number of registers and immediates that follow it.
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

// `index` is the input of a load, or the output of a store or reduction; `type` is the result's (set by verify()).
// Instruction i of those that produce a value defines register i': registers are numbered in order and assigned once.
struct Instruction {
  Op op = Op::kLoad;
  Type type = Type::kF32;
  int dst = -1;
  int src[3] = {-1, -1, -1};
  int index = -1;
  float imm[2] = {0, 0};
  int64_t whole = 0;  // value of an integer or bool constant
};

struct Code {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  std::vector<Instruction> code;
  int registers() const;
};

// Bounds the work on code from an untrusted file.
constexpr int kMaxInstructions = 4096, kMaxArguments = 64;

// Sets the types; an error for anything that a task of its plan could not execute safely: a register read before it is
// set or set twice, an argument out of range, mismatched types, an output stored never or twice, stores of whole
// elements and reductions to one output, unsupported dtypes, excessive length.
Status verify(Code* program);

// "in f32 f16; out f32; r0=load 0; r1=load 1; r2=add r0 r1; r3=tanh r2; store 0 r3". Constants: "r1=const.f32 0.5",
// casts "r2=cast.i64 r1", reductions "reduce.sum 0 r3", immediates follow the registers: "r1=clip r0 0 6".
std::string print(const Code& program);
// The verified program, or an error that names the instruction.
Result<Code> parse(std::string_view text);

}  // namespace peri::kernels::block
