// Stages of chains (see loops.hpp): each works on one group in registers and jumps to the next. Included after
// float_body.hpp.

namespace peri::kernels::cpu::block::PERI_ISA {

struct Group {
  F32 v[kGroupVectors];
};
constexpr int64_t kGroup = kGroupVectors * F32::kLanes;

// Floats that a load or store stage asks for ahead of its group, where its imm[0] says so.
constexpr int64_t kAhead = 512;

using StageCode = void (*)(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d);

StageRun erase(StageCode code) { return reinterpret_cast<StageRun>(code); }

PERI_SIMD void go_on(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d) {
  reinterpret_cast<StageCode>(s[1].run)(s + 1, offset, a, b, c, d);
}
template <int kOperand>
PERI_SIMD const float* operand(const Stage* s, int64_t offset) {
  return reinterpret_cast<const float*>(s->p[kOperand] + (offset & s->mask[kOperand]));
}
PERI_SIMD F32 part(const float* p, int k) { return F32::load(p + k * F32::kLanes); }

void load_stage(const Stage* s, int64_t offset, F32, F32, F32, F32) {
  const float* p = operand<0>(s, offset);
  if (s->imm[0] != 0) {
    for (int line = 0; line < kGroup / 16; ++line) __builtin_prefetch(p + kAhead + line * 16);
  }
  go_on(s, offset, part(p, 0), part(p, 1), part(p, 2), part(p, 3));
}

void store_stage(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d) {
  float* p = const_cast<float*>(operand<0>(s, offset));
  if (s->imm[0] != 0) {
    for (int line = 0; line < kGroup / 16; ++line) __builtin_prefetch(p + kAhead + line * 16, 1);
  }
  store(p, a);
  store(p + F32::kLanes, b);
  store(p + 2 * F32::kLanes, c);
  store(p + 3 * F32::kLanes, d);
  go_on(s, offset, a, b, c, d);
}

void end_stage(const Stage*, int64_t, F32, F32, F32, F32) {}

template <class F>
void unary_stage(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d) {
  a = F::run(a, s->imm);
  b = F::run(b, s->imm);
  c = F::run(c, s->imm);
  d = F::run(d, s->imm);
  go_on(s, offset, a, b, c, d);
}

template <class F, bool kSwap>
PERI_SIMD F32 apply_in_order(F32 x, F32 p) {
  if constexpr (kSwap) return F::run(p, x);
  return F::run(x, p);
}
template <class F, bool kSwap>
void binary_stage(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d) {
  const float* p = operand<0>(s, offset);
  a = apply_in_order<F, kSwap>(a, part(p, 0));
  b = apply_in_order<F, kSwap>(b, part(p, 1));
  c = apply_in_order<F, kSwap>(c, part(p, 2));
  d = apply_in_order<F, kSwap>(d, part(p, 3));
  go_on(s, offset, a, b, c, d);
}

void mul_add_stage(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d) {
  const float* p = operand<0>(s, offset);
  const float* q = operand<1>(s, offset);
  go_on(s, offset, fma(a, part(p, 0), part(q, 0)), fma(b, part(p, 1), part(q, 1)), fma(c, part(p, 2), part(q, 2)),
        fma(d, part(p, 3), part(q, 3)));
}
void add_mul_stage(const Stage* s, int64_t offset, F32 a, F32 b, F32 c, F32 d) {
  const float* p = operand<0>(s, offset);
  const float* q = operand<1>(s, offset);
  go_on(s, offset, fma(part(p, 0), part(q, 0), a), fma(part(p, 1), part(q, 1), b), fma(part(p, 2), part(q, 2), c),
        fma(part(p, 3), part(q, 3), d));
}

StageRun find_unary_stage(Op op) {
  switch (op) {
    case Op::kSqrt: return erase(unary_stage<Sqrt>);
    case Op::kRsqrt: return erase(unary_stage<Rsqrt>);
    case Op::kReciprocal: return erase(unary_stage<Reciprocal>);
    case Op::kExp: return erase(unary_stage<Exp>);
    case Op::kExpm1: return erase(unary_stage<Expm1>);
    case Op::kLog: return erase(unary_stage<Log>);
    case Op::kTanh: return erase(unary_stage<Tanh>);
    case Op::kErf: return erase(unary_stage<Erf>);
    case Op::kSigmoid: return erase(unary_stage<Sigmoid>);
    case Op::kSin: return erase(unary_stage<Sin>);
    case Op::kCos: return erase(unary_stage<Cos>);
    case Op::kRound: return erase(unary_stage<Round>);
    case Op::kFloor: return erase(unary_stage<Floor>);
    case Op::kCeil: return erase(unary_stage<Ceil>);
    case Op::kTrunc: return erase(unary_stage<Trunc>);
    case Op::kSign: return erase(unary_stage<Sign>);
    case Op::kRelu: return erase(unary_stage<Relu>);
    case Op::kSilu: return erase(unary_stage<Silu>);
    case Op::kGelu: return erase(unary_stage<Gelu>);
    case Op::kGeluTanh: return erase(unary_stage<GeluTanh>);
    case Op::kHardSwish: return erase(unary_stage<HardSwish>);
    case Op::kSoftplus: return erase(unary_stage<Softplus>);
    case Op::kMish: return erase(unary_stage<Mish>);
    case Op::kSquare: return erase(unary_stage<Square>);
    case Op::kLeakyRelu: return erase(unary_stage<LeakyRelu>);
    case Op::kElu: return erase(unary_stage<Elu>);
    case Op::kHardSigmoid: return erase(unary_stage<HardSigmoid>);
    case Op::kClip: return erase(unary_stage<Clip>);
    case Op::kNeg: return erase(unary_stage<Neg>);
    case Op::kAbs: return erase(unary_stage<Abs>);
    default: return nullptr;
  }
}
StageRun find_binary_stage(Op op, bool swapped) {
  switch (op) {
    case Op::kAdd: return swapped ? erase(binary_stage<Add, true>) : erase(binary_stage<Add, false>);
    case Op::kSub: return swapped ? erase(binary_stage<Sub, true>) : erase(binary_stage<Sub, false>);
    case Op::kMul: return swapped ? erase(binary_stage<Mul, true>) : erase(binary_stage<Mul, false>);
    case Op::kDiv: return swapped ? erase(binary_stage<Div, true>) : erase(binary_stage<Div, false>);
    case Op::kMax: return swapped ? erase(binary_stage<Max, true>) : erase(binary_stage<Max, false>);
    case Op::kMin: return swapped ? erase(binary_stage<Min, true>) : erase(binary_stage<Min, false>);
    case Op::kPow: return swapped ? erase(binary_stage<Pow, true>) : erase(binary_stage<Pow, false>);
    case Op::kPRelu: return swapped ? erase(binary_stage<PRelu, true>) : erase(binary_stage<PRelu, false>);
    default: return nullptr;
  }
}

StageRun find_stage(Form form, Op op) {
  switch (form) {
    case Form::kLoad: return erase(load_stage);
    case Form::kStore: return erase(store_stage);
    case Form::kEnd: return erase(end_stage);
    case Form::kUnary: return find_unary_stage(op);
    case Form::kBinary: return find_binary_stage(op, false);
    case Form::kSwapped: return find_binary_stage(op, true);
    case Form::kMulAdd: return erase(mul_add_stage);
    case Form::kAddMul: return erase(add_mul_stage);
  }
  return nullptr;
}

void run_chain(const Stage* stages, int64_t groups) {
  const StageCode first = reinterpret_cast<StageCode>(stages[0].run);
  const F32 none = F32::zero();
  for (int64_t g = 0; g < groups; ++g)
    first(stages, g * kGroup * static_cast<int64_t>(sizeof(float)), none, none, none, none);
}

}  // namespace peri::kernels::cpu::block::PERI_ISA
