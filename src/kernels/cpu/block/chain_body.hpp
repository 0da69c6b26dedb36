// Stages of chains (see loops.hpp): each processes one group in registers and jumps to the next. Included after
// float_body.hpp.

namespace peri::kernels::cpu::block::PERI_ISA {

// Indices of the vectors in a group: as many as are passed in registers and leave enough free ones.
template <int... K>
struct Numbers {
  static constexpr int kCount = sizeof...(K);
};
using Wide = Numbers<0, 1, 2, 3>;
using Narrow = Numbers<0>;
constexpr int64_t kGroup = Wide::kCount * F32::kLanes;

// Prefetch distance of a stage in floats, applied where imm[k] says so for its operand k.
constexpr int64_t kAhead = 1024;  // a page of 4 KiB; chain.cpp has what it gained, no other was measured
template <int kOperand, int kFloats, int kWrite = 0>
PERI_SIMD void ask_ahead(const Stage* s, const float* p) {
  if (s->imm[kOperand] == 0) return;
  for (int line = 0; line * 16 < kFloats; ++line) __builtin_prefetch(p + kAhead + line * 16, kWrite);
}
template <int kOperand>
PERI_SIMD const float* operand(const Stage* s, int64_t offset) {
  return reinterpret_cast<const float*>(s->p[kOperand] + (offset & s->mask[kOperand]));
}
PERI_SIMD F32 part(const float* p, int k) { return F32::load(p + k * F32::kLanes); }
template <class F, bool kSwap>
PERI_SIMD F32 apply_in_order(F32 x, F32 p) {
  if constexpr (kSwap) return F::run(p, x);
  return F::run(x, p);
}

template <class>
struct Stages;
template <int... K>
struct Stages<Numbers<K...>> {
  static constexpr int kFloats = sizeof...(K) * F32::kLanes;
  template <int>
  using Vector = F32;
  using Code = void (*)(const Stage* s, int64_t offset, Vector<K>... x);

  static StageRun erase(Code code) { return reinterpret_cast<StageRun>(code); }
  static PERI_SIMD_MEMBER void go_on(const Stage* s, int64_t offset, Vector<K>... x) {
    reinterpret_cast<Code>(s[1].run)(s + 1, offset, x...);
  }

  static void load(const Stage* s, int64_t offset, Vector<K>...) {
    const float* p = operand<0>(s, offset);
    ask_ahead<0, kFloats>(s, p);
    go_on(s, offset, part(p, K)...);
  }
  static void keep(const Stage* s, int64_t offset, Vector<K>... x) {
    float* p = const_cast<float*>(operand<0>(s, offset));
    ask_ahead<0, kFloats, 1>(s, p);
    (store(p + K * F32::kLanes, x), ...);
    go_on(s, offset, x...);
  }
  static void end(const Stage*, int64_t, Vector<K>...) {}
  template <class F>
  static void unary(const Stage* s, int64_t offset, Vector<K>... x) {
    go_on(s, offset, F::run(x, s->imm)...);
  }
  template <class F, bool kSwap, bool kAlike>
  static void binary(const Stage* s, int64_t offset, Vector<K>... x) {
    const float* p = operand<0>(s, offset);
    if constexpr (kAlike) {
      const F32 all = F32::load(p);
      go_on(s, offset, apply_in_order<F, kSwap>(x, all)...);
    } else {
      ask_ahead<0, kFloats>(s, p);
      go_on(s, offset, apply_in_order<F, kSwap>(x, part(p, K))...);
    }
  }
  static void scale_shift(const Stage* s, int64_t offset, Vector<K>... x) {
    const F32 p = F32::load(operand<0>(s, offset)), q = F32::load(operand<1>(s, offset));
    go_on(s, offset, fma(x, p, q)...);
  }
  static void mul_add(const Stage* s, int64_t offset, Vector<K>... x) {
    const float* p = operand<0>(s, offset);
    const float* q = operand<1>(s, offset);
    ask_ahead<0, kFloats>(s, p);
    ask_ahead<1, kFloats>(s, q);
    go_on(s, offset, fma(x, part(p, K), part(q, K))...);
  }
  static void add_mul(const Stage* s, int64_t offset, Vector<K>... x) {
    const float* p = operand<0>(s, offset);
    const float* q = operand<1>(s, offset);
    ask_ahead<0, kFloats>(s, p);
    ask_ahead<1, kFloats>(s, q);
    go_on(s, offset, fma(part(p, K), part(q, K), x)...);
  }
  static void run(const Stage* stages, int64_t groups) {
    const Code first = reinterpret_cast<Code>(stages[0].run);
    for (int64_t g = 0; g < groups; ++g)
      first(stages, g * kFloats * static_cast<int64_t>(sizeof(float)), Vector<K>::zero()...);
  }
};

template <class Here>
StageRun find_unary_stage(Op op) {
  switch (op) {
    case Op::kSqrt: return Here::erase(Here::template unary<Sqrt>);
    case Op::kRsqrt: return Here::erase(Here::template unary<Rsqrt>);
    case Op::kReciprocal: return Here::erase(Here::template unary<Reciprocal>);
    case Op::kExp: return Here::erase(Here::template unary<Exp>);
    case Op::kExpm1: return Here::erase(Here::template unary<Expm1>);
    case Op::kLog: return Here::erase(Here::template unary<Log>);
    case Op::kTanh: return Here::erase(Here::template unary<Tanh>);
    case Op::kErf: return Here::erase(Here::template unary<Erf>);
    case Op::kSigmoid: return Here::erase(Here::template unary<Sigmoid>);
    case Op::kSin: return Here::erase(Here::template unary<Sin>);
    case Op::kCos: return Here::erase(Here::template unary<Cos>);
    case Op::kRound: return Here::erase(Here::template unary<Round>);
    case Op::kFloor: return Here::erase(Here::template unary<Floor>);
    case Op::kCeil: return Here::erase(Here::template unary<Ceil>);
    case Op::kTrunc: return Here::erase(Here::template unary<Trunc>);
    case Op::kSign: return Here::erase(Here::template unary<Sign>);
    case Op::kRelu: return Here::erase(Here::template unary<Relu>);
    case Op::kSilu: return Here::erase(Here::template unary<Silu>);
    case Op::kGelu: return Here::erase(Here::template unary<Gelu>);
    case Op::kGeluTanh: return Here::erase(Here::template unary<GeluTanh>);
    case Op::kHardSwish: return Here::erase(Here::template unary<HardSwish>);
    case Op::kSoftplus: return Here::erase(Here::template unary<Softplus>);
    case Op::kMish: return Here::erase(Here::template unary<Mish>);
    case Op::kSquare: return Here::erase(Here::template unary<Square>);
    case Op::kLeakyRelu: return Here::erase(Here::template unary<LeakyRelu>);
    case Op::kElu: return Here::erase(Here::template unary<Elu>);
    case Op::kHardSigmoid: return Here::erase(Here::template unary<HardSigmoid>);
    case Op::kClip: return Here::erase(Here::template unary<Clip>);
    case Op::kNeg: return Here::erase(Here::template unary<Neg>);
    case Op::kAbs: return Here::erase(Here::template unary<Abs>);
    default: return nullptr;
  }
}
template <class Here, class F>
StageRun binary_stage(bool swapped, bool alike) {
  if (alike) return Here::erase(swapped ? Here::template binary<F, true, true> : Here::template binary<F, false, true>);
  return Here::erase(swapped ? Here::template binary<F, true, false> : Here::template binary<F, false, false>);
}
template <class Here>
StageRun find_binary_stage(Op op, bool swapped, bool alike) {
  switch (op) {
    case Op::kAdd: return binary_stage<Here, Add>(swapped, alike);
    case Op::kSub: return binary_stage<Here, Sub>(swapped, alike);
    case Op::kMul: return binary_stage<Here, Mul>(swapped, alike);
    case Op::kDiv: return binary_stage<Here, Div>(swapped, alike);
    case Op::kMax: return binary_stage<Here, Max>(swapped, alike);
    case Op::kMin: return binary_stage<Here, Min>(swapped, alike);
    case Op::kPow: return binary_stage<Here, Pow>(swapped, alike);
    case Op::kPRelu: return binary_stage<Here, PRelu>(swapped, alike);
    default: return nullptr;
  }
}

template <class Here>
StageRun find_stage_of(Form form, Op op, int alike) {
  switch (form) {
    case Form::kLoad: return Here::erase(Here::load);
    case Form::kStore: return Here::erase(Here::keep);
    case Form::kEnd: return Here::erase(Here::end);
    case Form::kUnary: return find_unary_stage<Here>(op);
    case Form::kBinary: return find_binary_stage<Here>(op, false, alike != 0);
    case Form::kSwapped: return find_binary_stage<Here>(op, true, alike != 0);
    case Form::kMulAdd: return Here::erase(alike == 3 ? Here::scale_shift : Here::mul_add);
    case Form::kAddMul: return Here::erase(Here::add_mul);
  }
  return nullptr;
}

StageRun find_stage(Form form, Op op, int alike, bool narrow) {
  return narrow ? find_stage_of<Stages<Narrow>>(form, op, alike) : find_stage_of<Stages<Wide>>(form, op, alike);
}

}  // namespace peri::kernels::cpu::block::PERI_ISA
