// The loops of near.hpp, written once; included by near_avx2.cpp and near_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/machines/near.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::machines::PERI_ISA {
using simd::PERI_ISA::F32;
static_assert(kWidth == 2 * F32::kLanes);

template <bool kSquares>
PERI_SIMD F32 add_term(F32 x, F32 vector, F32 sum) {
  if constexpr (!kSquares) return fma(x, vector, sum);
  const F32 d = x - vector;
  return fma(d, d, sum);
}

PERI_SIMD F32 shaped(const Near& n, F32 sum) {
  const F32 v = fma(F32::set1(n.gamma), sum, F32::set1(n.shift));
  if (n.degree == 0) return F32::set1(1);
  F32 power = v;
  for (int k = 1; k < n.degree; ++k) power = power * v;
  return power;
}

template <bool kSquares, int kRows>
PERI_SIMD void compute_rows(const Near& n) {
  for (int64_t block = 0; block < n.blocks; ++block) {
    const float* vector = n.support + block * n.features * kWidth;
    F32 low[kRows], high[kRows];
    for (int r = 0; r < kRows; ++r) low[r] = high[r] = F32::set1(0);
    for (int64_t f = 0; f < n.features; ++f, vector += kWidth) {
      const F32 a = F32::load(vector), b = F32::load(vector + F32::kLanes);
      for (int r = 0; r < kRows; ++r) {
        const F32 x = F32::set1(n.x[r * n.features + f]);
        low[r] = add_term<kSquares>(x, a, low[r]);
        high[r] = add_term<kSquares>(x, b, high[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* const to = n.near + (r * n.blocks + block) * kWidth;
      store(to, shaped(n, low[r]));
      store(to + F32::kLanes, shaped(n, high[r]));
    }
  }
}

template <bool kSquares>
PERI_SIMD void compute_any(const Near& n, int64_t rows) {
  switch (rows) {
    case 1: return compute_rows<kSquares, 1>(n);
    case 2: return compute_rows<kSquares, 2>(n);
    case 3: return compute_rows<kSquares, 3>(n);
    default: return compute_rows<kSquares, 4>(n);
  }
}

void compute(const Near& n, int64_t rows) { n.squares ? compute_any<true>(n, rows) : compute_any<false>(n, rows); }

}  // namespace peri::kernels::cpu::machines::PERI_ISA
