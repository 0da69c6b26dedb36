// Translation of element-wise regions into typed loops, and their run.
#include "kernels/cpu/typed/plan.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/cpu/task_elements.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cpu::typed {
namespace {
constexpr int64_t kPart = 1024;  // elements between two passes of a chain, which stay in L1
constexpr size_t kSlotBytes = kPart * 8;
constexpr size_t kMaxSlots = 128;

struct Named {
  std::string_view name;
  Op op;
};
constexpr Named kUnary[] = {{"not", Op::kNot},           {"bitwise_not", Op::kBitNot},
                            {"neg", Op::kNeg},           {"abs", Op::kAbs},
                            {"sign", Op::kSign},         {"relu", Op::kRelu},
                            {"sqrt", Op::kSqrt},         {"reciprocal", Op::kReciprocal},
                            {"exp", Op::kExp},           {"log", Op::kLog},
                            {"tanh", Op::kTanh},         {"erf", Op::kErf},
                            {"sigmoid", Op::kSigmoid},   {"softplus", Op::kSoftplus},
                            {"softsign", Op::kSoftsign}, {"sin", Op::kSin},
                            {"cos", Op::kCos},           {"tan", Op::kTan},
                            {"asin", Op::kAsin},         {"acos", Op::kAcos},
                            {"atan", Op::kAtan},         {"sinh", Op::kSinh},
                            {"cosh", Op::kCosh},         {"asinh", Op::kAsinh},
                            {"acosh", Op::kAcosh},       {"atanh", Op::kAtanh},
                            {"round", Op::kRound},       {"floor", Op::kFloor},
                            {"ceil", Op::kCeil},         {"is_nan", Op::kIsNan}};
constexpr Named kBinary[] = {{"add", Op::kAdd},
                             {"sum", Op::kAdd},
                             {"sub", Op::kSub},
                             {"mul", Op::kMul},
                             {"div", Op::kDiv},
                             {"max", Op::kMax},
                             {"min", Op::kMin},
                             {"prelu", Op::kPRelu},
                             {"equal", Op::kEq},
                             {"less", Op::kLt},
                             {"less_or_equal", Op::kLe},
                             {"greater", Op::kGt},
                             {"greater_or_equal", Op::kGe},
                             {"and", Op::kAnd},
                             {"or", Op::kOr},
                             {"xor", Op::kXor},
                             {"bitwise_and", Op::kBitAnd},
                             {"bitwise_or", Op::kBitOr},
                             {"bitwise_xor", Op::kBitXor}};

std::optional<Op> look_up(std::span<const Named> table, std::string_view name) {
  for (const Named& n : table)
    if (n.name == name) return n.op;
  return std::nullopt;
}

Result<Elem> elem_of(DType t) {
  switch (t) {
    case DType::kF32: return Elem::kF32;
    case DType::kF64: return Elem::kF64;
    case DType::kF16: return Elem::kF16;
    case DType::kBF16: return Elem::kBF16;
    case DType::kI8: return Elem::kI8;
    case DType::kI16: return Elem::kI16;
    case DType::kI32: return Elem::kI32;
    case DType::kI64: return Elem::kI64;
    case DType::kU8: return Elem::kU8;
    case DType::kU16: return Elem::kU16;
    case DType::kU32: return Elem::kU32;
    case DType::kU64: return Elem::kU64;
    case DType::kBool: return Elem::kBool;
    default: return refused("no loops for %s", dtype_name(t).data());
  }
}
int bytes_of(Elem e) {
  constexpr int kBytes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return kBytes[static_cast<int>(e)];
}

struct Value {
  int slot = -1;
  Elem elem = Elem::kF32;
};

class Translator {
 public:
  Translator(const Problem& problem, const Constants& constants, Find find)
      : problem_(problem), constants_(constants), find_(find), dims_(dims_of(*problem.graph->outputs[0])) {}

  Result<Plan> run() {
    const ir::Graph& g = *problem_.graph;
    for (const ir::Value* v : g.outputs) {
      if (dims_of(*v) != dims_) return refused("outputs of different shapes");
      if (!v->type.layout.row_major()) return refused("takes row-major results only");
    }
    for (int64_t d : dims_) out_.elements *= d;
    if (out_.elements == 0) return refused("an empty result");
    for (const ir::Node* n : g.nodes) {
      if (ops::states_sizes(*n)) continue;
      const ops::OpDef* op = ops::find(n->op);
      if (!op || !op->elementwise || n->outputs.size() != 1) return refused("%s is not element-wise", n->op.c_str());
      PERI_ASSIGN(values_[n->out()], node(*n));
    }
    for (size_t k = 0; k < g.outputs.size(); ++k) PERI_TRY(give(k));
    if (out_.slots.size() > kMaxSlots) return refused("a longer chain than it takes");
    merge_dims();
    return std::move(out_);
  }

 private:
  Result<Value> emit(Op op, std::vector<Value> src, Elem to, double a = 0, double b = 0) {
    Step s;
    s.loop = find_(op, src[op == Op::kSelect ? 1 : 0].elem, to);
    if (!s.loop) return refused("no loop for it in this type");
    for (size_t k = 0; k < src.size(); ++k) s.src[k] = src[k].slot;
    s.imm[0] = a;
    s.imm[1] = b;
    s.dst = static_cast<int>(out_.slots.size());
    out_.slots.push_back({Slot::Kind::kTemporary, bytes_of(to), 0, {}, false});
    out_.steps.push_back(s);
    return Value{s.dst, to};
  }

  // A cast that goes through float32 where a 16-bit float is at one end.
  Result<Value> cast(Value x, Elem to) {
    if (x.elem == to) return x;
    const auto narrow = [](Elem e) { return e == Elem::kF16 || e == Elem::kBF16; };
    if (narrow(x.elem) && to != Elem::kF32) {
      PERI_ASSIGN(x, emit(Op::kCast, {x}, Elem::kF32));
    } else if (narrow(to) && x.elem != Elem::kF32 && x.elem != Elem::kF64) {
      // float32 holds what float16 does not overflow to, and all of 16 bits; float64 what has 32.
      const bool exact = bytes_of(x.elem) <= 2 || to == Elem::kF16;
      if (!exact && bytes_of(x.elem) == 8) return refused("a cast that would round twice");
      PERI_ASSIGN(x, emit(Op::kCast, {x}, exact ? Elem::kF32 : Elem::kF64));
    }
    return emit(Op::kCast, {x}, to);
  }

  Result<Value> value(const ir::Value* v) {
    if (auto it = values_.find(v); it != values_.end()) return it->second;
    PERI_ASSIGN(const Elem elem, elem_of(v->type.dtype));
    if (!v->type.layout.row_major()) return refused("takes row-major inputs only");
    Source from = Source::of(problem_, v, constants_);
    if (!from.known()) return refused("reads a value made inside the region");
    const std::vector<int64_t> have = dims_of(*v);
    if (have.size() > dims_.size()) return refused("an operand has a higher rank than the result");
    Slot slot{Slot::Kind::kInput, bytes_of(elem), out_.sources.size(), std::vector<int64_t>(dims_.size(), 0), false};
    int64_t step = 1;
    for (size_t k = have.size(); k-- > 0;) {
      const size_t axis = dims_.size() - have.size() + k;
      if (have[k] != 1 && have[k] != dims_[axis]) return refused("an operand does not broadcast to the result");
      slot.strides[axis] = have[k] == 1 ? 0 : step;
      step *= have[k];
    }
    out_.sources.push_back(std::move(from));
    out_.slots.push_back(std::move(slot));
    return values_[v] = Value{static_cast<int>(out_.slots.size()) - 1, elem};
  }

  Result<Value> folded(Op op, std::vector<Value> src, Elem to) {
    Value at = src[0];
    for (size_t k = 1; k < src.size(); ++k) {
      PERI_ASSIGN(at, emit(op, {at, src[k]}, to));
    }
    return at;
  }

  Result<Value> chain(Value x, std::initializer_list<std::pair<Op, double>> ops) {
    for (const auto& [op, by] : ops) {
      PERI_ASSIGN(x, emit(op, {x}, x.elem, by));
    }
    return x;
  }
  // x times a gate.
  Result<Value> gated(const ir::Node& n, Value x) {
    PERI_ASSIGN(const Value gate, n.op == "mish" ? chain(x, {{Op::kSoftplus, 0}, {Op::kTanh, 0}})
                                                 : chain(x, {{Op::kScale, n.f("alpha", 1)}, {Op::kSigmoid, 0}}));
    return emit(Op::kMul, {x, gate}, x.elem);
  }

  Result<Value> with_attributes(const ir::Node& n, Value x) {
    const Elem e = x.elem;
    if (n.op == "is_inf")
      return emit(Op::kIsInf, {x}, Elem::kBool, n.i("detect_positive", 1) != 0, n.i("detect_negative", 1) != 0);
    if (n.op == "shrink" && e != Elem::kF32 && e != Elem::kF64) {  // integers, by fractions
      PERI_ASSIGN(const Value wide, cast(x, Elem::kF64));
      PERI_ASSIGN(const Value y, emit(Op::kShrink, {wide}, Elem::kF64, n.f("bias", 0), n.f("lambd", 0.5F)));
      return cast(y, e);
    }
    if (e != Elem::kF32 && e != Elem::kF64) return refused("%s of this type", n.op.c_str());
    if (n.op == "swish" || n.op == "mish") return gated(n, x);
    if (n.op == "leaky_relu") return emit(Op::kLeaky, {x}, e, n.f("alpha", 0.01F));
    if (n.op == "elu") return emit(Op::kElu, {x}, e, n.f("alpha", 1), 1);
    if (n.op == "selu")
      return emit(Op::kElu, {x}, e, n.f("alpha", 1.67326319217681884765625F), n.f("gamma", 1.05070102214813232421875F));
    if (n.op == "celu" && n.f("alpha", 1) == 1) return emit(Op::kElu, {x}, e, 1, 1);
    if (n.op == "thresholded_relu") return emit(Op::kThresholded, {x}, e, n.f("alpha", 1));
    if (n.op == "shrink") return emit(Op::kShrink, {x}, e, n.f("bias", 0), n.f("lambd", 0.5F));
    return refused("no loop for %s", n.op.c_str());
  }

  Result<Value> node(const ir::Node& n) {
    PERI_ASSIGN(const Elem result, elem_of(n.out()->type.dtype));
    std::vector<Value> src;
    const size_t read = n.op == "cast_like" || n.op == "dropout" ? 1 : n.inputs.size();
    for (size_t k = 0; k < read; ++k) {
      if (!n.inputs[k] && n.op == "clip") {
        src.push_back({});
        continue;
      }
      if (!n.inputs[k]) return refused("%s with an input left out", n.op.c_str());
      PERI_ASSIGN(const Value v, value(n.inputs[k]));
      src.push_back(v);
    }
    if (n.op == "identity" || n.op == "dropout") return src[0];
    if (n.op == "cast" || n.op == "cast_like") return cast(src[0], result);
    if (n.op == "where") return emit(Op::kSelect, src, result);
    if (n.op == "clip") return clip(src);
    if (n.op == "mod") return emit(n.i("fmod") ? Op::kFmod : Op::kMod, src, result);
    if (n.op == "bit_shift") return emit(n.s("direction") == "LEFT" ? Op::kShiftLeft : Op::kShiftRight, src, result);
    if (n.op == "pow") return pow(std::move(src), result);
    if (n.op == "mean") {
      PERI_ASSIGN(const Value sum, folded(Op::kAdd, src, result));
      return emit(Op::kScale, {sum}, result, 1.0 / static_cast<double>(src.size()));
    }
    if (src.size() == 1) {
      if (const auto op = look_up(kUnary, n.op)) return emit(*op, src, result);
      if (look_up(kBinary, n.op)) return src[0];  // a sum or maximum of one
      return with_attributes(n, src[0]);
    }
    if (const auto op = look_up(kBinary, n.op)) return folded(*op, std::move(src), result);
    return refused("no loop for %s", n.op.c_str());
  }

  // Of integers in 64 bits, which wrap as fewer do, or by a float in float64.
  Result<Value> pow(std::vector<Value> src, Elem result) {
    const auto floating = [](Elem e) {
      return e == Elem::kF32 || e == Elem::kF64 || e == Elem::kF16 || e == Elem::kBF16;
    };
    Elem in = src[0].elem;
    if (!floating(in)) in = floating(src[1].elem) ? Elem::kF64 : Elem::kI64;
    if (in != Elem::kF32 && in != Elem::kF64 && in != Elem::kI64) return refused("pow of floats of 16 bits");
    if (in == Elem::kI64 && src[1].elem == Elem::kU64) return refused("exponents of u64");
    for (Value& v : src) {
      PERI_ASSIGN(v, cast(v, in));
    }
    PERI_ASSIGN(const Value y, emit(Op::kPow, src, in));
    return cast(y, result);
  }

  Result<Value> clip(const std::vector<Value>& src) {
    Value x = src[0];
    if (src.size() > 1 && src[1].slot >= 0) {
      PERI_ASSIGN(x, emit(Op::kMax, {x, src[1]}, x.elem));
    }
    if (src.size() > 2 && src[2].slot >= 0) {
      PERI_ASSIGN(x, emit(Op::kMin, {x, src[2]}, x.elem));
    }
    return x;
  }

  // The step that makes output k writes it; what is made once more or never made is copied.
  Status give(size_t k) {
    const ir::Value* v = problem_.graph->outputs[k];
    const auto it = values_.find(v);
    if (it == values_.end() || it->second.slot < 0) return refused("an output is an input");
    const auto made =
        std::find_if(out_.steps.begin(), out_.steps.end(), [&](const Step& s) { return s.dst == it->second.slot; });
    if (made == out_.steps.end()) return refused("an output is an input");
    Slot& slot = out_.slots[static_cast<size_t>(it->second.slot)];
    if (slot.kind != Slot::Kind::kTemporary) return refused("two outputs are one value");
    slot.kind = Slot::Kind::kOutput;
    slot.index = k;
    return Ok{};
  }

  // Neighbouring dimensions that every input walks as one are one; inputs that lie as the outputs need no strides.
  void merge_dims() {
    std::vector<int64_t> dims;
    std::vector<std::vector<int64_t>> strides(out_.slots.size());
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (dims_[d] == 1) continue;
      bool joins = !dims.empty();
      for (size_t s = 0; s < out_.slots.size() && joins; ++s)
        if (const auto& own = out_.slots[s].strides; !own.empty()) joins = strides[s].back() == own[d] * dims_[d];
      if (joins)
        dims.back() *= dims_[d];
      else
        dims.push_back(dims_[d]);
      for (size_t s = 0; s < out_.slots.size(); ++s) {
        const auto& own = out_.slots[s].strides;
        if (own.empty()) continue;
        if (joins)
          strides[s].back() = own[d];
        else
          strides[s].push_back(own[d]);
      }
    }
    if (dims.empty()) dims.push_back(1);
    for (size_t s = 0; s < out_.slots.size(); ++s) {
      Slot& slot = out_.slots[s];
      if (slot.kind != Slot::Kind::kInput) continue;
      slot.strides = std::move(strides[s]);
      slot.one = std::all_of(slot.strides.begin(), slot.strides.end(), [](int64_t v) { return v == 0; });
      int64_t step = 1;
      bool dense = true;
      for (size_t d = slot.strides.size(); d-- > 0; step *= dims[d]) dense &= slot.strides[d] == step;
      if (dense && !slot.strides.empty()) {
        slot.strides.clear();
        slot.one = false;
      }
    }
    out_.dims = std::move(dims);
  }

  const Problem& problem_;
  const Constants& constants_;
  Find find_;
  std::vector<int64_t> dims_;
  std::map<const ir::Value*, Value> values_;
  Plan out_;
};

template <class T>
void spread_row(const void* from, void* to, int64_t n, int64_t stride) {
  const T* a = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  if (stride == 0)
    std::fill_n(y, n, *a);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = a[i * stride];
}
void spread_row(int bytes, const std::byte* from, std::byte* to, int64_t n, int64_t stride) {
  if (stride == 1) return static_cast<void>(std::memcpy(to, from, static_cast<size_t>(n * bytes)));
  if (bytes == 1) return spread_row<uint8_t>(from, to, n, stride);
  if (bytes == 2) return spread_row<uint16_t>(from, to, n, stride);
  if (bytes == 4) return spread_row<uint32_t>(from, to, n, stride);
  spread_row<uint64_t>(from, to, n, stride);
}

// Elements [begin, begin + n) of an input in the shape of the outputs.
void spread(const Plan& p, const Slot& slot, const std::byte* from, std::byte* to, int64_t begin, int64_t n) {
  const size_t last = p.dims.size() - 1;
  while (n > 0) {
    int64_t at = begin, offset = 0;
    for (size_t d = p.dims.size(); d-- > 0; at /= p.dims[d]) offset += at % p.dims[d] * slot.strides[d];
    const int64_t row = std::min(n, p.dims[last] - begin % p.dims[last]);
    spread_row(slot.bytes, from + offset * slot.bytes, to, row, slot.strides[last]);
    to += row * slot.bytes;
    begin += row;
    n -= row;
  }
}
}  // namespace

Result<Plan> make_plan(const Problem& problem, const Constants& constants, Find find) {
  return Translator(problem, constants, find).run();
}

int64_t task_count(const Plan& p) { return (p.elements + kTaskElements - 1) / kTaskElements; }
size_t scratch_bytes(const Plan& p) { return p.slots.size() * kSlotBytes; }

void run_task(const Plan& p, int64_t task, const Args& args) {
  const int64_t end = std::min(p.elements, (task + 1) * kTaskElements);
  std::byte* place[kMaxSlots];
  for (size_t s = 0; s < p.slots.size(); ++s) {
    place[s] = args.scratch + s * kSlotBytes;
    const Slot& slot = p.slots[s];
    if (slot.kind == Slot::Kind::kInput && slot.one)
      spread_row(slot.bytes, static_cast<const std::byte*>(p.sources[slot.index].data(args)), place[s], kPart, 0);
  }
  for (int64_t begin = task * kTaskElements; begin < end; begin += kPart) {
    const int64_t n = std::min(kPart, end - begin);
    for (size_t s = 0; s < p.slots.size(); ++s) {
      const Slot& slot = p.slots[s];
      if (slot.kind == Slot::Kind::kOutput) {
        place[s] = static_cast<std::byte*>(args.out[slot.index]) + begin * slot.bytes;
      } else if (slot.kind == Slot::Kind::kInput && !slot.one) {
        const auto* from = static_cast<const std::byte*>(p.sources[slot.index].data(args));
        if (slot.strides.empty())
          place[s] = const_cast<std::byte*>(from) + begin * slot.bytes;
        else
          spread(p, slot, from, place[s], begin, n);
      }
    }
    for (const Step& s : p.steps) {
      const auto at = [&](int slot) { return slot < 0 ? nullptr : place[static_cast<size_t>(slot)]; };
      s.loop({at(s.src[0]), at(s.src[1]), at(s.src[2]), at(s.dst), n, s.imm});
    }
  }
}

}  // namespace peri::kernels::cpu::typed
