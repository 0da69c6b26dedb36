// Attention for one tile of queries, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.
// Scores are kept transposed, [key][query]: only the queries are packed, keys and values are read in place with any
// stride, and the softmax runs down the columns without crossing lanes.

#include "kernels/cpu/attention/loops.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::attention::PERI_ISA {

using simd::PERI_ISA::F32;
constexpr int64_t kLanes = F32::kLanes;
constexpr int64_t kQueries = 64;              // per tile: 64 keys of scores fill 16 KiB
constexpr int64_t kPair = 2 * kLanes;         // queries per register block
constexpr int kKeys = kLanes == 16 ? 12 : 6;  // keys per register block: 24 or 12 accumulators

PERI_SIMD const float* key_row(const Tile& t, int64_t k) { return t.k + k * t.k_row; }

// packed[d][i] = q[i][d] * scale, zero beyond the last query.
PERI_SIMD void pack_queries(const Tile& t, float* packed) {
  for (int64_t d = 0; d < t.depth; ++d) {
    float* to = packed + d * kQueries;
    for (int64_t i = 0; i < t.queries; ++i) to[i] = t.q[i * t.q_row + d * t.q_step] * t.scale;
    for (int64_t i = t.queries; i < kQueries; ++i) to[i] = 0;
  }
}

// kRows keys times kPair queries: scores[k][i] for the block at `scores`.
template <int kRows>
void score_block(const Tile& t, const float* packed, int64_t first_key, float* scores) {
  F32 acc[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = F32::zero();
  const float* k = key_row(t, first_key);
  for (int64_t d = 0; d < t.depth; ++d) {
    const F32 a = F32::load(packed + d * kQueries), b = F32::load(packed + d * kQueries + kLanes);
    const float* p = k + d * t.k_step;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const F32 v = F32::set1(p[r * t.k_row]);
      acc[r][0] = fma(a, v, acc[r][0]);
      acc[r][1] = fma(b, v, acc[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    store(scores + r * kQueries, acc[r][0]);
    store(scores + r * kQueries + kLanes, acc[r][1]);
  }
}

template <int kRows>
void score_rest(const Tile& t, const float* packed, int64_t first_key, int64_t count, float* scores) {
  if (count == kRows) return score_block<kRows>(t, packed, first_key, scores);
  if constexpr (kRows > 1) score_rest<kRows - 1>(t, packed, first_key, count, scores);
}

PERI_SIMD void all_scores(const Tile& t, const float* packed, float* scores) {
  for (int64_t k = 0; k < t.keys; k += kKeys) {
    const int64_t count = t.keys - k < kKeys ? t.keys - k : kKeys;
    for (int64_t i = 0; i < t.queries; i += kPair)
      score_rest<kKeys>(t, packed + i, k, count, scores + k * kQueries + i);
  }
}

// The addend of the score of key k for queries i, i + 1, ... (lanes beyond the last query repeat it).
PERI_SIMD F32 mask_of(const Tile& t, int64_t k, int64_t i) {
  const F32 hidden = F32::set1(-__builtin_inff());
  F32 m = F32::zero();
  if (t.add_mask != nullptr) {
    const float* p = t.add_mask + k * t.mask_step;
    if (t.mask_row == 0) {
      m = F32::set1(*p);
    } else {
      float lanes[kLanes];
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] = p[(i + l < t.queries ? i + l : t.queries - 1) * t.mask_row];
      m = F32::load(lanes);
    }
  }
  if (t.bool_mask != nullptr) {
    const uint8_t* p = t.bool_mask + k * t.mask_step;
    float lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] = p[(i + l < t.queries ? i + l : t.queries - 1) * t.mask_row] != 0 ? 0.0f : -__builtin_inff();
    m = m + F32::load(lanes);
  }
  if (k > t.causal_from + i) {
    float lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = k > t.causal_from + i + l ? 1.0f : 0.0f;
    m = select(gt(F32::load(lanes), F32::zero()), hidden, m);
  }
  return m;
}

// scores = cap * tanh(scores / cap)
PERI_SIMD void cap_scores(const Tile& t, float* scores) {
  const F32 cap = F32::set1(t.cap), parts = F32::set1(1 / t.cap);
  for (int64_t k = 0; k < t.keys; ++k) {
    float* const row = scores + k * kQueries;
    for (int64_t i = 0; i < t.queries; i += kLanes) store(row + i, cap * simd::tanh(F32::load(row + i) * parts));
  }
}

// scores = e^(scores + mask - maximum); inverse[i] = 1 / sum.
PERI_SIMD void softmax_columns(const Tile& t, float* scores, float* inverse) {
  const bool masked = t.add_mask != nullptr || t.bool_mask != nullptr;
  for (int64_t i = 0; i < t.queries; i += kLanes) {
    F32 top = F32::set1(-__builtin_inff());
    const bool causal = t.causal_from + i < t.keys - 1;
    for (int64_t k = 0; k < t.keys; ++k) {
      F32 v = F32::load(scores + k * kQueries + i);
      if (masked || (causal && k > t.causal_from + i)) {
        v = v + mask_of(t, k, i);
        store(scores + k * kQueries + i, v);
      }
      top = max(top, v);
    }
    if (t.zero_hidden) top = select(eq(top, F32::set1(-__builtin_inff())), F32::zero(), top);
    F32 sum = F32::zero(), part = F32::zero();
    for (int64_t k = 0; k < t.keys; ++k) {
      const F32 e = simd::exp(F32::load(scores + k * kQueries + i) - top);
      store(scores + k * kQueries + i, e);
      part = part + e;
      if (k % 64 == 63) {
        sum = sum + part;
        part = F32::zero();
      }
    }
    sum = sum + part;
    const F32 one_over = F32::set1(1.0f) / sum;
    store(inverse + i, t.zero_hidden ? select(eq(sum, F32::zero()), F32::zero(), one_over) : one_over);
  }
}

// kRows queries times kVectors vectors of the value's depth, from column d on; the last vector has `last` lanes.
template <int kRows, int kVectors>
void value_block(const Tile& t, const float* scores, const float* inverse, int64_t query, int64_t d, int64_t last) {
  F32 acc[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) acc[r][c] = F32::zero();
  }
  const float* v = t.v + d;
  const float* s = scores + query;
  const bool whole = last == kLanes;
  for (int64_t k = 0; k < t.keys; ++k, v += t.v_row, s += kQueries) {
    F32 row[kVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c)
      row[c] = c < kVectors - 1 || whole ? F32::load(v + c * kLanes) : F32::load_n(v + c * kLanes, last);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const F32 p = F32::set1(s[r]);
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) acc[r][c] = fma(p, row[c], acc[r][c]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    float* o = t.o + (query + r) * t.o_row + d;
    const F32 factor = F32::set1(inverse[query + r]);
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
      const F32 y = acc[r][c] * factor;
      c < kVectors - 1 || whole ? store(o + c * kLanes, y) : store_n(o + c * kLanes, y, last);
    }
  }
}

template <int kVectors>
PERI_SIMD void value_columns(const Tile& t, const float* scores, const float* inverse, int64_t d, int64_t last) {
  // Sums in registers: at most 6 x 4 of 32 with AVX-512, 5 x 2 of 16 with AVX2.
  constexpr int kRows = kLanes == 16 ? 6 : kVectors == 1 ? 6 : 5;
  int64_t i = 0;
  for (; i + kRows <= t.queries; i += kRows) value_block<kRows, kVectors>(t, scores, inverse, i, d, last);
  for (; i + 2 <= t.queries; i += 2) value_block<2, kVectors>(t, scores, inverse, i, d, last);
  if (i < t.queries) value_block<1, kVectors>(t, scores, inverse, i, d, last);
}

PERI_SIMD void all_values(const Tile& t, const float* scores, const float* inverse) {
  constexpr int kMaxVectors = kLanes == 16 ? 4 : 2;
  for (int64_t d = 0; d < t.value_depth;) {
    const int64_t rest = t.value_depth - d, vectors = (rest + kLanes - 1) / kLanes;
    const int64_t taken = vectors < kMaxVectors ? vectors : kMaxVectors;
    const int64_t end = taken * kLanes, last = rest >= end ? kLanes : rest - (taken - 1) * kLanes;
    if constexpr (kMaxVectors == 4) {
      if (taken == 4) value_columns<4>(t, scores, inverse, d, last);
      if (taken == 3) value_columns<3>(t, scores, inverse, d, last);
    }
    if (taken == 2) value_columns<2>(t, scores, inverse, d, last);
    if (taken == 1) value_columns<1>(t, scores, inverse, d, last);
    d += end;
  }
}

void run(const Tile& t) {
  float* packed = t.scratch;
  float* inverse = packed + t.depth * kQueries;
  float* scores = inverse + kQueries;
  pack_queries(t, packed);
  all_scores(t, packed, scores);
  if (t.cap > 0) cap_scores(t, scores);
  softmax_columns(t, scores, inverse);
  all_values(t, scores, inverse);
}

const Loops kLoops = {kQueries, run};

}  // namespace peri::kernels::cpu::attention::PERI_ISA
