// Translation of element-wise regions.
#include "kernels/block/translate.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::block {

namespace {
struct Unary {
  std::string_view name;
  Op op;
};
constexpr Unary kUnary[] = {{"sqrt", Op::kSqrt},
                            {"reciprocal", Op::kReciprocal},
                            {"exp", Op::kExp},
                            {"log", Op::kLog},
                            {"tanh", Op::kTanh},
                            {"erf", Op::kErf},
                            {"sigmoid", Op::kSigmoid},
                            {"sin", Op::kSin},
                            {"cos", Op::kCos},
                            {"round", Op::kRound},
                            {"floor", Op::kFloor},
                            {"ceil", Op::kCeil},
                            {"sign", Op::kSign},
                            {"relu", Op::kRelu},
                            {"hard_swish", Op::kHardSwish},
                            {"softplus", Op::kSoftplus},
                            {"mish", Op::kMish},
                            {"neg", Op::kNeg},
                            {"abs", Op::kAbs},
                            {"not", Op::kNot},
                            {"is_nan", Op::kIsNan}};
constexpr Unary kBinary[] = {{"add", Op::kAdd},
                             {"sub", Op::kSub},
                             {"mul", Op::kMul},
                             {"div", Op::kDiv},
                             {"max", Op::kMax},
                             {"min", Op::kMin},
                             {"pow", Op::kPow},
                             {"prelu", Op::kPRelu},
                             {"equal", Op::kEq},
                             {"less", Op::kLt},
                             {"less_or_equal", Op::kLe},
                             {"greater", Op::kGt},
                             {"greater_or_equal", Op::kGe},
                             {"and", Op::kAnd},
                             {"or", Op::kOr},
                             {"xor", Op::kXor}};

std::optional<Op> look_up(std::span<const Unary> table, std::string_view name) {
  for (const Unary& u : table)
    if (u.name == name) return u.op;
  return std::nullopt;
}

Result<Type> register_type(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: return Type::kF32;
    case DType::kI32: return Type::kI32;
    case DType::kI64: return Type::kI64;
    case DType::kBool: return Type::kBool;
    default: return refused("no registers for %s", dtype_name(t).data());
  }
}

struct Translator {
  const Problem& problem;
  Translated out;
  std::map<const ir::Value*, int> reg;
  int next = 0;

  int emit(Op op, std::vector<int> src, Type type = Type::kF32, double a = 0, double b = 0) {
    Instruction i;
    i.op = op;
    i.type = type;
    i.dst = next++;
    for (size_t k = 0; k < src.size(); ++k) i.src[k] = src[k];
    i.imm[0] = static_cast<float>(a);
    i.imm[1] = static_cast<float>(b);
    out.program.code.push_back(i);
    return i.dst;
  }
  int constant(double v) { return emit(Op::kConst, {}, Type::kF32, v); }
  Result<int> value(const ir::Value* v) {
    if (auto it = reg.find(v); it != reg.end()) return it->second;
    PERI_ASSIGN(const Type type, register_type(v->type.dtype));
    return value(v, type);
  }
  Result<int> value(const ir::Value* v, Type type) {
    if (auto it = reg.find(v); it != reg.end()) return it->second;
    if (v->constant && v->constant->numel() == 1) {
      Instruction i;
      i.op = Op::kConst;
      i.type = type;
      i.dst = next++;
      if (type == Type::kF32)
        i.imm[0] = static_cast<float>(v->constant->f64(0));
      else
        i.whole = v->constant->i64(0);
      out.program.code.push_back(i);
      return reg[v] = i.dst;
    }
    if (v->producer && ops::states_sizes(*v->producer)) return sizes(v, type);
    const int input = input_index(*problem.graph, v);
    if (input < 0 && !v->constant)
      return refused("'%s' is not element-wise", v->producer ? v->producer->op.c_str() : v->name.c_str());
    Instruction i;
    i.op = Op::kLoad;
    i.index = static_cast<int>(out.program.inputs.size());
    i.dst = next++;
    out.program.inputs.push_back(v->type.dtype);
    out.arguments.push_back(input);
    out.inlined.push_back(input < 0 ? *v->constant : Tensor());
    out.program.code.push_back(i);
    return reg[v] = i.dst;
  }

  // Sizes known as expressions are numbers here: dims are concrete.
  Result<int> sizes(const ir::Value* v, Type type) {
    if (!v->content) return refused("sizes that are not known");
    std::vector<int64_t> numbers;
    for (const Dim& d : *v->content) {
      if (!d.is_const()) return refused("sizes that are not known");
      numbers.push_back(d.value());
    }
    Instruction i;
    i.dst = next++;
    i.type = type;
    if (numbers.size() == 1) {
      i.op = Op::kConst;
      i.whole = numbers[0];
    } else {
      i.op = Op::kLoad;
      i.index = static_cast<int>(out.program.inputs.size());
      PERI_ASSIGN(Tensor list, Tensor::zeros(v->type.dtype, {static_cast<int64_t>(numbers.size())}));
      for (size_t k = 0; k < numbers.size(); ++k) list.set_i64(static_cast<int64_t>(k), numbers[k]);
      out.program.inputs.push_back(v->type.dtype);
      out.arguments.push_back(-1);
      out.inlined.push_back(std::move(list));
    }
    out.program.code.push_back(i);
    return reg[v] = i.dst;
  }

  std::optional<double> scalar(const ir::Value* v) const {
    if (!v || !v->constant || v->constant->numel() != 1) return std::nullopt;
    return v->constant->f64(0);
  }

  Result<int> clip(const ir::Node& n, int x, Type type) {
    const bool low_known = !n.in(1) || scalar(n.in(1)), high_known = !n.in(2) || scalar(n.in(2));
    if (type == Type::kF32 && low_known && high_known) {
      const double low = n.in(1) ? *scalar(n.in(1)) : -HUGE_VAL, high = n.in(2) ? *scalar(n.in(2)) : HUGE_VAL;
      if (low <= high) return emit(Op::kClip, {x}, type, low, high);
    }
    if (n.in(1)) {
      PERI_ASSIGN(const int low, value(n.in(1)));
      x = emit(Op::kMax, {x, low}, type);
    }
    if (n.in(2)) {
      PERI_ASSIGN(const int high, value(n.in(2)));
      x = emit(Op::kMin, {x, high}, type);
    }
    return x;
  }

  Result<int> one_input(const ir::Node& n, int x, Type type) {
    if (n.op == "identity" || n.op == "dropout") return x;
    if (n.op == "clip") return clip(n, x, type);
    if (auto op = look_up(kUnary, n.op)) {
      const bool whole = type != Type::kF32;
      if (whole && *op != Op::kAbs && *op != Op::kNeg && *op != Op::kNot)
        return refused("%s of integers", n.op.c_str());
      return emit(*op, {x}, type);
    }
    if (n.op == "cast") {
      PERI_ASSIGN(const Type to, register_type(n.out()->type.dtype));
      const DType from = n.in(0)->type.dtype;
      if (is_float(from) && is_integer(n.out()->type.dtype)) return refused("a cast from float to integer");
      if (is_float(from) && is_float(n.out()->type.dtype)) {
        // Registers hold float32: a load widens, a store rounds, nothing between them does.
        const bool exact = n.out()->type.dtype == DType::kF32 || n.out()->type.dtype == from;
        if (!exact && !n.out()->users.empty()) return refused("a cast that rounds in the middle of a chain");
        return x;
      }
      return emit(Op::kCast, {x}, to);
    }
    if (n.op == "leaky_relu") return emit(Op::kLeakyRelu, {x}, type, n.f("alpha", 0.01));
    if (n.op == "elu") return emit(Op::kElu, {x}, type, n.f("alpha", 1.0));
    if (n.op == "hard_sigmoid") return emit(Op::kHardSigmoid, {x}, type, n.f("alpha", 0.2), n.f("beta", 0.5));
    if (n.op == "selu") {
      const int x1 = emit(Op::kElu, {x}, type, n.f("alpha", 1.67326319217681884765625F));
      return emit(Op::kMul, {x1, constant(n.f("gamma", 1.05070102214813232421875F))}, type);
    }
    if (n.op == "celu" && n.f("alpha", 1.0) > 0) {
      const int alpha = constant(n.f("alpha", 1.0));
      return emit(Op::kMul, {emit(Op::kElu, {emit(Op::kDiv, {x, alpha}, type)}, type, 1.0), alpha}, type);
    }
    if (n.op == "softsign")
      return emit(Op::kDiv, {x, emit(Op::kAdd, {emit(Op::kAbs, {x}, type), constant(1)}, type)}, type);
    if (n.op == "thresholded_relu")
      return emit(Op::kSelect, {emit(Op::kGt, {x, constant(n.f("alpha", 1.0))}, Type::kBool), x, constant(0)}, type);
    if (n.op == "sum" || n.op == "mean" || n.op == "max" || n.op == "min") return x;  // of one
    if (n.op == "gelu") return emit(n.s("approximate", "none") == "tanh" ? Op::kGeluTanh : Op::kGelu, {x}, type);
    if (n.op == "swish" && n.f("alpha", 1.0) == 1.0) return emit(Op::kSilu, {x}, type);
    if (n.op == "swish") {
      const int gate = emit(Op::kSigmoid, {emit(Op::kMul, {x, constant(n.f("alpha", 1.0))}, type)}, type);
      return emit(Op::kMul, {x, gate}, type);
    }
    return refused("no instruction for %s", n.op.c_str());
  }

  // Bytes as numbers and back: registers hold them as i32.
  Status bytes(const ir::Node& n) {
    const auto scale = scalar(n.in(1)), zero = scalar(n.in(2));
    if (!scale || !zero) return refused("a scale or zero point made while running");
    const auto constant = [&](double v) { return emit(Op::kConst, {}, Type::kF32, v); };
    if (n.op == "from_bytes") {
      PERI_ASSIGN(const int x, value(n.in(0), Type::kI32));
      int y = emit(Op::kCast, {x}, Type::kF32);
      if (*zero != 0) y = emit(Op::kSub, {y, constant(*zero)});
      reg[n.out()] = emit(Op::kMul, {y, constant(*scale)});
      return Ok{};
    }
    const double low = n.out()->type.dtype == DType::kI8 ? -128 : 0;
    PERI_ASSIGN(const int x, value(n.in(0)));
    int y = emit(Op::kRound, {emit(Op::kDiv, {x, constant(*scale)})});
    if (*zero != 0) y = emit(Op::kAdd, {y, constant(*zero)});
    reg[n.out()] = emit(Op::kCast, {emit(Op::kClip, {y}, Type::kF32, low, low + 255)}, Type::kI32);
    return Ok{};
  }

  Status node(const ir::Node& n) {
    if (n.op == "from_bytes" || n.op == "to_bytes") return bytes(n);
    PERI_ASSIGN(const Type result, register_type(n.out()->type.dtype));
    std::vector<int> src;
    if (n.op == "clip") {
      PERI_ASSIGN(const int x, value(n.in(0)));
      PERI_ASSIGN(reg[n.out()], clip(n, x, result));
      return Ok{};
    }
    for (const ir::Value* v : n.inputs) {
      if (!v) return refused("%s with an input left out", n.op.c_str());
      PERI_ASSIGN(const int r, value(v));
      src.push_back(r);
    }
    if (src.size() == 1) {
      PERI_ASSIGN(const Type type, register_type(n.in(0)->type.dtype));
      PERI_ASSIGN(reg[n.out()], one_input(n, src[0], type));
      return Ok{};
    }
    if (n.op == "where") {
      reg[n.out()] = emit(Op::kSelect, src, result);
      return Ok{};
    }
    const bool adds = n.op == "sum" || n.op == "mean";
    const auto op = adds ? std::optional(Op::kAdd) : look_up(kBinary, n.op);
    if (!op) return refused("no instruction for %s", n.op.c_str());
    PERI_ASSIGN(const Type type, register_type(n.in(0)->type.dtype));
    for (const ir::Value* v : n.inputs)
      if (v->type.dtype != n.in(0)->type.dtype) return refused("%s of mixed types", n.op.c_str());
    if (type != Type::kF32 && (*op == Op::kDiv || *op == Op::kPow || *op == Op::kPRelu))
      return refused("%s of integers", n.op.c_str());
    int at = src[0];
    for (size_t k = 1; k < src.size(); ++k) at = emit(*op, {at, src[k]}, result);
    if (n.op == "mean") at = emit(Op::kMul, {at, constant(1.0 / static_cast<double>(src.size()))}, result);
    reg[n.out()] = at;
    return Ok{};
  }
};
}  // namespace

Result<Translated> translate(const Problem& p) {
  const ir::Graph& g = *p.graph;
  Translator t{p, {}, {}, 0};
  for (const ir::Node* n : g.nodes) {
    if (ops::states_sizes(*n)) continue;
    const ops::OpDef* op = ops::find(n->op);
    if (!op || !op->elementwise || n->outputs.size() != 1) return refused("%s is not element-wise", n->op.c_str());
    PERI_TRY(t.node(*n));
  }
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const ir::Value* v = g.outputs[k];
    if (!(v->type.shape == g.outputs[0]->type.shape)) return refused("outputs of different shapes");
    if (!t.reg.contains(v)) return refused("an output is an input");
    Instruction i;
    i.op = Op::kStore;
    i.src[0] = t.reg.at(v);
    i.index = static_cast<int>(k);
    t.out.program.outputs.push_back(v->type.dtype);
    t.out.program.code.push_back(i);
  }
  Status sound = verify(&t.out.program);
  if (!sound.ok()) return refused("%s", sound.error().text().c_str());
  return std::move(t.out);
}

Result<Space> space_of(const Problem& p, const Translated& t, const ir::Layout& layout) {
  const std::vector<int64_t> dims = dims_of(*p.graph->outputs[0]);
  Space s;
  auto axis_at = [&](size_t k) { return layout.order.empty() ? k : layout.order[k]; };
  for (size_t k = 0; k < dims.size(); ++k) s.dims.push_back(dims[axis_at(k)]);
  for (size_t a = 0; a < t.arguments.size(); ++a) {
    const ir::Value* v = t.arguments[a] < 0 ? nullptr : p.graph->inputs[static_cast<size_t>(t.arguments[a])];
    const std::vector<int64_t> have = v ? dims_of(*v) : t.inlined[a].dims();
    if (have.size() > dims.size()) return refused("an operand has a higher rank than the output");
    const size_t skip = dims.size() - have.size();
    const ir::Layout own = v ? v->type.layout : ir::Layout{};
    if (!own.row_major() && (have.size() != dims.size() || !(own == layout)))
      return refused("an operand in another layout");
    std::vector<int64_t> by_axis(dims.size(), 0);
    int64_t step = 1;
    for (size_t k = have.size(); k-- > 0;) {
      const size_t axis = own.order.empty() ? k : own.order[k];
      if (have[axis] != 1 && have[axis] != dims[skip + axis])
        return refused("an operand does not broadcast to the output");
      by_axis[skip + axis] = have[axis] == 1 ? 0 : step;
      step *= have[axis];
    }
    std::vector<int64_t> strides;
    for (size_t k = 0; k < dims.size(); ++k) strides.push_back(by_axis[axis_at(k)]);
    s.strides.push_back(std::move(strides));
  }
  return s;
}

}  // namespace peri::kernels::block
