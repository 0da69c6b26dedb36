// Registers are rN; what has no C operator is a function of the prelude.
#include "kernels/cuda/code/instruction.hpp"

#include <bit>

namespace peri::kernels::cuda {

namespace {
using block::Op;

std::string word_text(float v) { return format("peri_bits(0x%08xu)", std::bit_cast<uint32_t>(v)); }

// Functions of one register, with immediates behind it.
std::string_view function_of(Op op) {
  switch (op) {
    case Op::kSqrt: return "sqrtf";
    case Op::kExp: return "expf";
    case Op::kExpm1: return "expm1f";
    case Op::kLog: return "logf";
    case Op::kTanh: return "tanhf";
    case Op::kErf: return "erff";
    case Op::kSigmoid: return "peri_sigmoid";
    case Op::kSin: return "sinf";
    case Op::kCos: return "cosf";
    case Op::kRound: return "rintf";
    case Op::kFloor: return "floorf";
    case Op::kCeil: return "ceilf";
    case Op::kTrunc: return "truncf";
    case Op::kSign: return "peri_sign";
    case Op::kRelu: return "peri_relu";
    case Op::kSilu: return "peri_silu";
    case Op::kGelu: return "peri_gelu";
    case Op::kGeluTanh: return "peri_gelu_tanh";
    case Op::kHardSwish: return "peri_hard_swish";
    case Op::kSoftplus: return "peri_softplus";
    case Op::kMish: return "peri_mish";
    case Op::kLeakyRelu: return "peri_leaky_relu";
    case Op::kElu: return "peri_elu";
    case Op::kHardSigmoid: return "peri_hard_sigmoid";
    case Op::kClip: return "peri_clip";
    case Op::kPow: return "powf";
    default: return "";
  }
}
std::string_view sign_of(Op op) {
  switch (op) {
    case Op::kDiv: return " / ";
    case Op::kEq: return " == ";
    case Op::kNe: return " != ";
    case Op::kLt: return " < ";
    case Op::kLe: return " <= ";
    case Op::kGt: return " > ";
    case Op::kGe: return " >= ";
    case Op::kAnd: return " && ";
    case Op::kOr: return " || ";
    case Op::kXor: return " != ";
    default: return "";
  }
}

}  // namespace

std::string type_text(block::Type t) {
  switch (t) {
    case block::Type::kF32: return "float";
    case block::Type::kI32: return "int";
    case block::Type::kI64: return "peri_i64";
    case block::Type::kBool: break;
  }
  return "bool";
}

Result<std::string> expression_text(const block::Instruction& i, block::Type from) {
  const auto r = [&](int k) { return "r" + std::to_string(i.src[k]); };
  const bool real = from == block::Type::kF32;
  if (const std::string_view f = function_of(i.op); !f.empty()) {
    std::string out = std::string(f) + "(" + r(0);
    for (int k = 1; k < block::op_row(i.op).registers; ++k) out += ", " + r(k);
    for (int k = 0; k < block::op_row(i.op).immediates; ++k) out += ", " + word_text(i.imm[k]);
    return out + ")";
  }
  if (const std::string_view s = sign_of(i.op); !s.empty()) return r(0) + std::string(s) + r(1);
  const auto call = [&](const char* name) { return std::string(name) + "(" + r(0) + ", " + r(1) + ")"; };
  switch (i.op) {
    case Op::kReciprocal: return "1.0f / " + r(0);
    case Op::kRsqrt: return "1.0f / sqrtf(" + r(0) + ")";
    case Op::kSquare: return r(0) + " * " + r(0);
    case Op::kNeg: return real ? "-" + r(0) : "peri_sub((" + type_text(from) + ")0, " + r(0) + ")";
    case Op::kAbs:
      return real ? "fabsf(" + r(0) + ")"
                  : r(0) + " < 0 ? peri_sub((" + type_text(from) + ")0, " + r(0) + ") : " + r(0);
    case Op::kIsNan: return r(0) + " != " + r(0);
    case Op::kIsInf: return "fabsf(" + r(0) + ") == peri_inf()";
    case Op::kNot: return "!" + r(0);
    case Op::kCast:  // from float to integer only of what is clipped to bytes before (block::translate)
      if (i.type == block::Type::kBool) return r(0) + " != (" + type_text(from) + ")0";
      return "(" + type_text(i.type) + ")" + r(0);
    case Op::kAdd: return real ? r(0) + " + " + r(1) : call("peri_add");
    case Op::kSub: return real ? r(0) + " - " + r(1) : call("peri_sub");
    case Op::kMul: return real ? r(0) + " * " + r(1) : call("peri_mul");
    case Op::kMax: return real ? call("peri_max") : r(0) + " > " + r(1) + " ? " + r(0) + " : " + r(1);
    case Op::kMin: return real ? call("peri_min") : r(0) + " < " + r(1) + " ? " + r(0) + " : " + r(1);
    case Op::kPRelu: return r(0) + " < 0.0f ? " + r(0) + " * " + r(1) + " : " + r(0);
    case Op::kMulAdd: return "fmaf(" + r(0) + ", " + r(1) + ", " + r(2) + ")";
    case Op::kSelect: return r(0) + " ? " + r(1) + " : " + r(2);
    default: return refused("no text for '%s'", std::string(block::op_row(i.op).name).c_str());
  }
}

std::string constant_text(const block::Instruction& i) {
  if (i.type == block::Type::kF32) return word_text(i.imm[0]);
  return "(" + type_text(i.type) + ")" +
         (i.whole == INT64_MIN ? "(-9223372036854775807ll - 1)" : std::to_string(i.whole) + "ll");
}

}  // namespace peri::kernels::cuda
