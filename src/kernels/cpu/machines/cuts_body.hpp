// The loops of cuts.hpp, written once; included by cuts_avx2.cpp and cuts_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/machines/cuts.hpp"

namespace peri::kernels::cpu::machines::PERI_ISA {
using simd::PERI_ISA::F32;
using I32 = F32::Int;
constexpr int64_t kLanes = F32::kLanes;

// Whether the condition fails, for NaN too.
template <Condition kCondition, bool kMissing>
PERI_SIMD auto fails(F32 x, F32 split) {
  if constexpr (kCondition == Condition::kOther) return eq(x, split);
  if constexpr (kCondition == Condition::kEqual && !kMissing) return ne(x, split);
  if constexpr (kCondition == Condition::kEqual) return lt(x, split) | gt(x, split);
  if constexpr (kCondition == Condition::kLeq && kMissing) return gt(x, split);
  if constexpr (kCondition == Condition::kLess && kMissing) return ge(x, split);
  if constexpr (kCondition == Condition::kGeq && kMissing) return lt(x, split);
  if constexpr (kCondition == Condition::kGreater && kMissing) return le(x, split);
  if constexpr (kCondition == Condition::kLeq) return ~le(x, split);
  if constexpr (kCondition == Condition::kLess) return ~lt(x, split);
  if constexpr (kCondition == Condition::kGeq) return ~ge(x, split);
  return ~gt(x, split);
}

template <Condition kCondition, bool kMissing, int kVectors>
PERI_SIMD void cut(const Cut* c, const Cut* end, const float* columns, I32 (&left)[kVectors]) {
  for (; c < end; ++c) {
    const F32 split = F32::set1(c->split);
    const I32 keep = I32::set1(c->keep);
    const float* const x = columns + c->column;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      left[v] = select(fails<kCondition, kMissing>(F32::load(x + v * kLanes), split), left[v] & keep, left[v]);
  }
}

// The place of the lowest bit; of none, a negative number.
PERI_SIMD I32 lowest(I32 bits) {
  const I32 exponent = shift_right<23>(as_int(to_float(bits & (I32::set1(0) - bits)))) & I32::set1(0xff);
  return exponent - I32::set1(127);
}

template <Condition kCondition, int kVectors>
PERI_SIMD void find(const Piecewise& t, int64_t row) {
  I32 leaf[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) leaf[v] = I32::set1(0);
  for (int64_t p = t.count - 1; p >= 0; --p) {
    const Piece& piece = t.pieces[p];
    I32 left[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) left[v] = I32::set1(-1);
    const Cut* const middle = piece.cuts + piece.missing;
    cut<kCondition, true>(piece.cuts, middle, t.columns + row, left);
    cut<kCondition, false>(middle, piece.cuts + piece.count, t.columns + row, left);
    const I32 first = I32::set1(static_cast<int32_t>(p * kPieceLeaves));
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) leaf[v] = select(eq(left[v], I32::set1(0)), leaf[v], lowest(left[v]) + first);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) store(t.leaf + row + v * kLanes, leaf[v]);
}

template <Condition kCondition>
void find_all(const Piecewise& t) {
  int64_t row = 0;
  for (; t.rows - row > 2 * kLanes; row += 4 * kLanes) find<kCondition, 4>(t, row);
  if (t.rows - row > kLanes) {
    find<kCondition, 2>(t, row);
  } else if (row < t.rows) {
    find<kCondition, 1>(t, row);
  }
}

void find_leaves(Condition condition, const Piecewise& tree) {
  switch (condition) {
    case Condition::kLeq: return find_all<Condition::kLeq>(tree);
    case Condition::kLess: return find_all<Condition::kLess>(tree);
    case Condition::kGeq: return find_all<Condition::kGeq>(tree);
    case Condition::kGreater: return find_all<Condition::kGreater>(tree);
    case Condition::kEqual: return find_all<Condition::kEqual>(tree);
    case Condition::kOther: return find_all<Condition::kOther>(tree);
  }
}

}  // namespace peri::kernels::cpu::machines::PERI_ISA
