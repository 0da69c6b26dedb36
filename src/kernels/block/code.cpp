// Text form and verification of block code.
#include "kernels/block/code.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace peri::kernels::block {
namespace {

constexpr OpRow kRows[] = {
    {Op::kLoad, "load", 0, 0},
    {Op::kConst, "const", 0, 0},
    {Op::kStore, "store", 1, 0},
    {Op::kSqrt, "sqrt", 1, 0},
    {Op::kRsqrt, "rsqrt", 1, 0},
    {Op::kReciprocal, "reciprocal", 1, 0},
    {Op::kExp, "exp", 1, 0},
    {Op::kExpm1, "expm1", 1, 0},
    {Op::kLog, "log", 1, 0},
    {Op::kTanh, "tanh", 1, 0},
    {Op::kErf, "erf", 1, 0},
    {Op::kSigmoid, "sigmoid", 1, 0},
    {Op::kSin, "sin", 1, 0},
    {Op::kCos, "cos", 1, 0},
    {Op::kRound, "round", 1, 0},
    {Op::kFloor, "floor", 1, 0},
    {Op::kCeil, "ceil", 1, 0},
    {Op::kTrunc, "trunc", 1, 0},
    {Op::kSign, "sign", 1, 0},
    {Op::kRelu, "relu", 1, 0},
    {Op::kSilu, "silu", 1, 0},
    {Op::kGelu, "gelu", 1, 0},
    {Op::kGeluTanh, "gelu_tanh", 1, 0},
    {Op::kHardSwish, "hard_swish", 1, 0},
    {Op::kSoftplus, "softplus", 1, 0},
    {Op::kMish, "mish", 1, 0},
    {Op::kSquare, "square", 1, 0},
    {Op::kLeakyRelu, "leaky_relu", 1, 1},
    {Op::kElu, "elu", 1, 1},
    {Op::kHardSigmoid, "hard_sigmoid", 1, 2},
    {Op::kClip, "clip", 1, 2},
    {Op::kNeg, "neg", 1, 0},
    {Op::kAbs, "abs", 1, 0},
    {Op::kIsNan, "isnan", 1, 0},
    {Op::kIsInf, "isinf", 1, 0},
    {Op::kNot, "not", 1, 0},
    {Op::kCast, "cast", 1, 0},
    {Op::kAdd, "add", 2, 0},
    {Op::kSub, "sub", 2, 0},
    {Op::kMul, "mul", 2, 0},
    {Op::kMax, "max", 2, 0},
    {Op::kMin, "min", 2, 0},
    {Op::kDiv, "div", 2, 0},
    {Op::kPow, "pow", 2, 0},
    {Op::kPRelu, "prelu", 2, 0},
    {Op::kEq, "eq", 2, 0},
    {Op::kNe, "ne", 2, 0},
    {Op::kLt, "lt", 2, 0},
    {Op::kLe, "le", 2, 0},
    {Op::kGt, "gt", 2, 0},
    {Op::kGe, "ge", 2, 0},
    {Op::kAnd, "and", 2, 0},
    {Op::kOr, "or", 2, 0},
    {Op::kXor, "xor", 2, 0},
    {Op::kMulAdd, "muladd", 3, 0},
    {Op::kSelect, "select", 3, 0},
    {Op::kReduceSum, "reduce.sum", 1, 0},
    {Op::kReduceMean, "reduce.mean", 1, 0},
    {Op::kReduceMax, "reduce.max", 1, 0},
    {Op::kReduceMin, "reduce.min", 1, 0},
    {Op::kReduceProd, "reduce.prod", 1, 0},
    {Op::kReduceSumSquare, "reduce.sum_square", 1, 0},
    {Op::kReduceL2, "reduce.l2", 1, 0},
    {Op::kReduceLogSumExp, "reduce.logsumexp", 1, 0},
};
static_assert(std::size(kRows) == kOpCount);

constexpr std::string_view kTypeNames[] = {"f32", "i32", "i64", "bool"};

std::optional<Type> register_type(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF64: return Type::kF32;
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32: return Type::kI32;
    case DType::kI64: return Type::kI64;
    case DType::kBool: return Type::kBool;
    default: return std::nullopt;
  }
}

bool in(Op op, Op first, Op last) { return op >= first && op <= last; }

// The type of the result for the operands' types t[], or nothing where they do not fit.
std::optional<Type> result_type(const Instruction& i, const Type* t) {
  const bool number = t[0] != Type::kBool;
  if (in(i.op, Op::kSqrt, Op::kClip) || is_reduction(i.op)) {
    if (t[0] == Type::kF32) return Type::kF32;
  } else if (i.op == Op::kNeg || i.op == Op::kAbs) {
    if (number) return t[0];
  } else if (i.op == Op::kIsNan || i.op == Op::kIsInf) {
    if (t[0] == Type::kF32) return Type::kBool;
  } else if (i.op == Op::kNot) {
    if (!number) return Type::kBool;
  } else if (i.op == Op::kCast) {
    return i.type;
  } else if (in(i.op, Op::kAdd, Op::kMin)) {
    if (number && t[0] == t[1]) return t[0];
  } else if (in(i.op, Op::kDiv, Op::kPRelu)) {
    if (t[0] == Type::kF32 && t[1] == Type::kF32) return Type::kF32;
  } else if (i.op == Op::kEq || i.op == Op::kNe) {
    if (t[0] == t[1]) return Type::kBool;
  } else if (in(i.op, Op::kLt, Op::kGe)) {
    if (number && t[0] == t[1]) return Type::kBool;
  } else if (in(i.op, Op::kAnd, Op::kXor)) {
    if (!number && t[1] == Type::kBool) return Type::kBool;
  } else if (i.op == Op::kMulAdd) {
    if (t[0] == Type::kF32 && t[1] == Type::kF32 && t[2] == Type::kF32) return Type::kF32;
  } else if (i.op == Op::kSelect) {
    if (!number && t[1] == t[2]) return t[1];
  }
  return std::nullopt;
}

Status verify_arguments(const Code& p) {
  if (p.code.empty() || p.code.size() > kMaxInstructions)
    return invalid("block code: 1 to %d instructions", kMaxInstructions);
  if (p.inputs.size() > kMaxArguments || p.outputs.empty() || p.outputs.size() > kMaxArguments)
    return invalid("block code: up to %d inputs and 1 to %d outputs", kMaxArguments, kMaxArguments);
  for (const auto* list : {&p.inputs, &p.outputs}) {
    for (DType t : *list) {
      if (!register_type(t)) return unsupported("block code: no registers for element type %d", static_cast<int>(t));
    }
  }
  return Ok{};
}

Status verify_target(const Code& p, const Instruction& i, int place, Type value, std::vector<int>* stored) {
  if (i.index < 0 || static_cast<size_t>(i.index) >= p.outputs.size())
    return invalid("block code: instruction %d writes output %d of %zu", place, i.index, p.outputs.size());
  if (*register_type(p.outputs[static_cast<size_t>(i.index)]) != value)
    return invalid("block code: instruction %d: the register's type does not fit output %d", place, i.index);
  if ((*stored)[static_cast<size_t>(i.index)]++ != 0) return invalid("block code: output %d is written twice", i.index);
  return Ok{};
}

struct Reader {
  std::string_view rest;
  void skip() {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n' || rest[0] == '\t')) rest.remove_prefix(1);
  }
  std::string_view word() {
    skip();
    size_t n = 0;
    while (n < rest.size() && rest[n] != ' ' && rest[n] != '\n' && rest[n] != '\t' && rest[n] != '=') ++n;
    const std::string_view w = rest.substr(0, n);
    rest.remove_prefix(n);
    return w;
  }
  bool take(char c) {
    skip();
    if (rest.empty() || rest[0] != c) return false;
    rest.remove_prefix(1);
    return true;
  }
  template <class T>
  bool number(T* out) {
    const std::string_view w = word();
    const auto r = std::from_chars(w.data(), w.data() + w.size(), *out);
    return r.ec == std::errc() && r.ptr == w.data() + w.size();
  }
  bool reg(int* out) {
    skip();
    if (rest.empty() || rest[0] != 'r') return false;
    rest.remove_prefix(1);
    return number(out);
  }
  bool done() {
    skip();
    return rest.empty();
  }
};

std::optional<Type> type_of_name(std::string_view name) {
  for (int k = 0; k < 4; ++k) {
    if (kTypeNames[k] == name) return static_cast<Type>(k);
  }
  return std::nullopt;
}

// The op's word, with the type of const and cast after a dot.
bool read_op(std::string_view word, Instruction* out) {
  for (const OpRow& row : kRows) {
    if (row.name == word) {
      out->op = row.op;
      return row.op != Op::kConst && row.op != Op::kCast;
    }
  }
  const size_t dot = word.find('.');
  if (dot == std::string_view::npos) return false;
  const auto type = type_of_name(word.substr(dot + 1));
  const std::string_view stem = word.substr(0, dot);
  if (!type || (stem != "const" && stem != "cast")) return false;
  out->op = stem == "const" ? Op::kConst : Op::kCast;
  out->type = *type;
  return true;
}

bool read_instruction(std::string_view text, Instruction* out) {
  Reader r{text};
  r.skip();
  if (text.find('=') != std::string_view::npos && (!r.reg(&out->dst) || !r.take('='))) return false;
  if (!read_op(r.word(), out)) return false;
  if (out->op == Op::kConst) {
    if (!(out->type == Type::kF32 ? r.number(&out->imm[0]) : r.number(&out->whole))) return false;
    return r.done();
  }
  const bool indexed = out->op == Op::kLoad || out->op == Op::kStore || is_reduction(out->op);
  if (indexed && !r.number(&out->index)) return false;
  const OpRow& row = op_row(out->op);
  for (int k = 0; k < row.registers; ++k) {
    if (!r.reg(&out->src[k])) return false;
  }
  for (int k = 0; k < row.immediates; ++k) {
    if (!r.number(&out->imm[k])) return false;
  }
  return r.done();
}

Status read_types(std::string_view text, std::vector<DType>* out) {
  Reader r{text};
  while (!r.done()) {
    PERI_ASSIGN(const DType t, parse_dtype(r.word()));
    out->push_back(t);
  }
  return Ok{};
}

std::string number_text(float v) {
  char buffer[64];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, r.ptr);
}

}  // namespace

const OpRow& op_row(Op op) { return kRows[static_cast<int>(op)]; }
bool is_reduction(Op op) { return op >= Op::kReduceSum; }
std::string_view type_name(Type type) { return kTypeNames[static_cast<int>(type)]; }
int type_size(Type type) { return type == Type::kBool ? 1 : type == Type::kI64 ? 8 : 4; }

int Code::registers() const {
  int n = 0;
  for (const Instruction& i : code) n += i.dst >= 0;
  return n;
}

Status verify(Code* p) {
  PERI_TRY(verify_arguments(*p));
  std::vector<Type> types;
  std::vector<int> stored(p->outputs.size());
  for (size_t k = 0; k < p->code.size(); ++k) {
    Instruction& i = p->code[k];
    const int place = static_cast<int>(k);
    if (static_cast<unsigned>(i.op) >= kOpCount || static_cast<unsigned>(i.type) > 3)
      return invalid("block code: instruction %d has no such op or type", place);
    Type t[3] = {};
    for (int s = 0; s < op_row(i.op).registers; ++s) {
      if (i.src[s] < 0 || static_cast<size_t>(i.src[s]) >= types.size())
        return invalid("block code: instruction %d reads register %d before it is set", place, i.src[s]);
      t[s] = types[static_cast<size_t>(i.src[s])];
    }
    if (i.op == Op::kStore || is_reduction(i.op)) {
      if (i.dst != -1) return invalid("block code: instruction %d makes no register", place);
      if (is_reduction(i.op) && t[0] != Type::kF32) return invalid("block code: reduction %d is not of f32", place);
      PERI_TRY(verify_target(*p, i, place, t[0], &stored));
      i.type = t[0];
      continue;
    }
    if (i.dst != static_cast<int>(types.size()))
      return invalid("block code: instruction %d must set register %zu, not %d", place, types.size(), i.dst);
    if (i.op == Op::kLoad) {
      if (i.index < 0 || static_cast<size_t>(i.index) >= p->inputs.size())
        return invalid("block code: instruction %d loads input %d of %zu", place, i.index, p->inputs.size());
      i.type = *register_type(p->inputs[static_cast<size_t>(i.index)]);
    } else if (i.op != Op::kConst) {
      const auto type = result_type(i, t);
      if (!type)
        return invalid("block code: instruction %d (%s): operand types do not fit", place, op_row(i.op).name.data());
      i.type = *type;
    }
    types.push_back(i.type);
  }
  for (size_t k = 0; k < stored.size(); ++k) {
    if (stored[k] == 0) return invalid("block code: output %zu is never written", k);
  }
  return Ok{};
}

std::string print(const Code& p) {
  std::string out = "in";
  for (DType t : p.inputs) out += " " + std::string(dtype_name(t));
  out += "; out";
  for (DType t : p.outputs) out += " " + std::string(dtype_name(t));
  for (const Instruction& i : p.code) {
    out += "; ";
    if (i.dst >= 0) out += format("r%d=", i.dst);
    out += op_row(i.op).name;
    if (i.op == Op::kConst || i.op == Op::kCast) out += "." + std::string(type_name(i.type));
    if (i.op == Op::kConst) out += " " + (i.type == Type::kF32 ? number_text(i.imm[0]) : std::to_string(i.whole));
    if (i.index >= 0) out += format(" %d", i.index);
    for (int k = 0; k < op_row(i.op).registers; ++k) out += format(" r%d", i.src[k]);
    for (int k = 0; k < op_row(i.op).immediates; ++k) out += " " + number_text(i.imm[k]);
  }
  return out;
}

Result<Code> parse(std::string_view text) {
  Code p;
  int clause = 0;
  while (true) {
    const size_t end = text.find(';');
    std::string_view part = text.substr(0, end);
    while (!part.empty() && (part[0] == ' ' || part[0] == '\n')) part.remove_prefix(1);
    if (clause == 0) {
      if (part != "in" && !part.starts_with("in ")) return invalid("block code: expected 'in TYPES;' first");
      PERI_TRY(read_types(part.substr(2), &p.inputs));
    } else if (clause == 1) {
      if (!part.starts_with("out ")) return invalid("block code: expected 'out TYPES;' second");
      PERI_TRY(read_types(part.substr(4), &p.outputs));
    } else {
      Instruction i;
      if (clause - 2 >= kMaxInstructions || !read_instruction(part, &i))
        return invalid("block code: cannot read instruction %d '%.*s'", clause - 2,
                       static_cast<int>(std::min<size_t>(part.size(), 60)), part.data());
      p.code.push_back(i);
    }
    ++clause;
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  PERI_TRY(verify(&p));
  return p;
}

}  // namespace peri::kernels::block
