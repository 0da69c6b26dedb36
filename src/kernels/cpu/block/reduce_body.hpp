// Reduction loops of block code: four independent vector sums (or maxima), joined in one fixed order, so that results
// depend on the tile's length only. Included after float_body.hpp.

namespace peri::kernels::cpu::block::PERI_ISA {

template <class Take, class Join>
PERI_SIMD F32 sweep(const float* x, int64_t n, F32 start, Take take, Join join) {
  F32 acc[4] = {start, start, start, start};
  int64_t i = 0;
  for (; i + 4 * F32::kLanes <= n; i += 4 * F32::kLanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) acc[k] = take(acc[k], F32::load(x + i + k * F32::kLanes));
  }
  for (; i + F32::kLanes <= n; i += F32::kLanes) acc[0] = take(acc[0], F32::load(x + i));
  if (i < n) {
    // Lanes beyond the end keep the initial value, which is neutral.
    const F32 part = take(start, F32::load_n(x + i, n - i));
    float lanes[F32::kLanes];
    store(lanes, start);
    store_n(lanes, part, n - i);
    acc[1] = join(acc[1], F32::load(lanes));
  }
  return join(join(acc[0], acc[1]), join(acc[2], acc[3]));
}

PERI_SIMD F32 add_of(F32 a, F32 b) { return a + b; }

void reduce_sum(const float* x, int64_t n, Partial* s) {
  s->a[0] += static_cast<double>(sum_lanes(sweep(x, n, F32::zero(), add_of, add_of)));
}
void reduce_sum_square(const float* x, int64_t n, Partial* s) {
  const auto take = [](F32 acc, F32 v) __attribute__((always_inline)) { return fma(v, v, acc); };
  s->a[0] += static_cast<double>(sum_lanes(sweep(x, n, F32::zero(), take, add_of)));
}
PERI_SIMD float max_of_lanes(F32 v) {
  if (any(is_nan(v))) return __builtin_nanf("");
  return max_lanes(v);
}
PERI_SIMD float max_of(const float* x, int64_t n) {
  const auto join = [](F32 a, F32 b) __attribute__((always_inline)) { return max(a, b); };
  return max_of_lanes(sweep(x, n, F32::set1(-__builtin_inff()), join, join));
}
void reduce_max(const float* x, int64_t n, Partial* s) {
  const double m = static_cast<double>(max_of(x, n));
  if (!(m <= s->a[0]) && s->a[0] == s->a[0]) s->a[0] = m;
}
void reduce_min(const float* x, int64_t n, Partial* s) {
  const auto join = [](F32 a, F32 b) __attribute__((always_inline)) { return min(a, b); };
  const F32 v = sweep(x, n, F32::set1(__builtin_inff()), join, join);
  const double m = any(is_nan(v)) ? __builtin_nan("") : static_cast<double>(min_lanes(v));
  if (!(m >= s->a[0]) && s->a[0] == s->a[0]) s->a[0] = m;
}
void reduce_prod(const float* x, int64_t n, Partial* s) {
  double p = s->a[0];
  for (int64_t i = 0; i < n; ++i) p *= static_cast<double>(x[i]);
  s->a[0] = p;
}
// a[0]: the maximum so far, a[1]: the sum of e^(x - maximum).
void reduce_logsumexp(const float* x, int64_t n, Partial* s) {
  const float here = max_of(x, n);
  Partial part = {{static_cast<double>(here), 0}};
  if (here > -__builtin_inff() && here < __builtin_inff()) {
    const F32 m = F32::set1(here);
    const auto take = [m](F32 acc, F32 v) __attribute__((always_inline)) { return acc + simd::exp(v - m); };
    int64_t i = 0;
    F32 acc = F32::zero();
    for (; i + F32::kLanes <= n; i += F32::kLanes) acc = take(acc, F32::load(x + i));
    if (i < n) {
      float lanes[F32::kLanes];
      store(lanes, F32::set1(-__builtin_inff()));
      store_n(lanes, F32::load_n(x + i, n - i), n - i);
      acc = take(acc, F32::load(lanes));
    }
    part.a[1] = static_cast<double>(sum_lanes(acc));
  }
  reduce_merge(Op::kReduceLogSumExp, s, part);
}

Reduce find_reduce(Op op) {
  switch (op) {
    case Op::kReduceSum:
    case Op::kReduceMean: return reduce_sum;
    case Op::kReduceMax: return reduce_max;
    case Op::kReduceMin: return reduce_min;
    case Op::kReduceProd: return reduce_prod;
    case Op::kReduceSumSquare:
    case Op::kReduceL2: return reduce_sum_square;
    case Op::kReduceLogSumExp: return reduce_logsumexp;
    default: return nullptr;
  }
}

Kernel find(const Key& key) {
  if (key.type == Type::kF32 && key.op != Op::kCast && !(key.op == Op::kIsNan || key.op == Op::kIsInf)) {
    const Kernel k = find_float(key);
    if (k != nullptr || key.op != Op::kSelect) return k;
  }
  const Kernel cast = find_cast(key);
  return cast != nullptr ? cast : find_plain(key);
}

constexpr int32_t kLowLanes[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

// One vector at a time where rows are at least as long: it holds one row's value, or those of two adjacent rows. Stores
// aligned to each row would cross cache lines (block_bench, scale per channel 7x7, Zen 5: 0.75 of copy, so 0.9).
void spread_rows(const float* from, int64_t step, int64_t rows, int64_t width, float* to) {
  if (width < F32::kLanes) {
    for (int64_t r = 0; r < rows; ++r, to += width) store(to, F32::set1(from[r * step]));
    return;
  }
  F32 now = F32::set1(*from);
  int64_t left = width;  // of the current row
  const float* const end = to + rows * width;
  for (; to < end; to += F32::kLanes, left -= F32::kLanes) {
    if (left >= F32::kLanes) {
      store(to, now);
      continue;
    }
    if (--rows > 0) from += step;
    const F32 next = F32::set1(*from);
    store(to, select(gt(simd::PERI_ISA::I32::set1(0), simd::PERI_ISA::I32::load(kLowLanes + 16 - left)), now, next));
    now = next;
    left += width;
  }
}

const Kernels kKernels = {.find = find,
                          .load_f16 = load_f16,
                          .load_bf16 = load_bf16,
                          .store_f16 = store_f16,
                          .store_bf16 = store_bf16,
                          .load_i8 = convert_integers<int8_t, int32_t>,
                          .load_u8 = convert_integers<uint8_t, int32_t>,
                          .store_i8 = convert_integers<int32_t, int8_t>,
                          .store_u8 = convert_integers<int32_t, uint8_t>,
                          .reduce = find_reduce,
                          .stage = find_stage,
                          .run_chain = Stages<Wide>::run,
                          .run_narrow = Stages<Narrow>::run,
                          .spread_rows = spread_rows,
                          .group = kGroup,
                          .vector = F32::kLanes};

}  // namespace peri::kernels::cpu::block::PERI_ISA
