// The loops of rows/loops.hpp, written once; included by loops_avx2.cpp and loops_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/rows/loops.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::rows::PERI_ISA {

using simd::PERI_ISA::F32;
constexpr int64_t kLanes = F32::kLanes;
constexpr int64_t kChunk = 2048;  // elements summed in float before they are added in double

// f(i, n) for every vector of a row of `n` elements; the last one with fewer lanes.
template <class F>
PERI_SIMD void each(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, n - i);
}
PERI_SIMD F32 read(const float* p, int64_t n) { return n == kLanes ? F32::load(p) : F32::load_n(p, n); }
PERI_SIMD void write(float* p, F32 v, int64_t n) { n == kLanes ? store(p, v) : store_n(p, v, n); }
// Lanes from n on are replaced by `neutral`.
PERI_SIMD F32 keep_lanes(F32 v, int64_t n, float neutral) {
  return n == kLanes ? v : select(simd::PERI_ISA::mask_of_first(n), v, F32::set1(neutral));
}

// Sum over i < n of term(i, lanes), in chunks; term returns zero in the lanes beyond the end.
template <class F>
PERI_SIMD double sum_of(int64_t n, F term) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = begin + kChunk < n ? begin + kChunk : n;
    F32 a = F32::zero(), b = F32::zero();
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      a = a + term(i, kLanes);
      b = b + term(i + kLanes, kLanes);
    }
    if (i + kLanes <= end) {
      a = a + term(i, kLanes);
      i += kLanes;
    }
    if (i < end) b = b + term(i, end - i);
    total += static_cast<double>(sum_lanes(a + b));
  }
  return total;
}

PERI_SIMD float max_of_lanes(F32 v) { return any(is_nan(v)) ? __builtin_nanf("") : max_lanes(v); }

// A row of so many vectors, the last with fewer lanes or not, in registers: what is stored for part of a vector's lanes
// is slow to read back.
template <int kVectors>
PERI_SIMD void softmax_short(const float* x, const float* mask, int64_t mask_step, float scale, bool log, float* y,
                             int64_t n) {
  constexpr int kLast = kVectors - 1;
  const int64_t left = n - kLast * kLanes;
  const auto lanes_of = [&](int k) __attribute__((always_inline)) { return k < kLast ? kLanes : left; };
  F32 v[kVectors];
  F32 most = F32::set1(-__builtin_inff());
  for (int k = 0; k < kVectors; ++k) {
    v[k] = read(x + k * kLanes, lanes_of(k)) * F32::set1(scale);
    if (mask != nullptr) v[k] = v[k] + (mask_step == 0 ? F32::set1(*mask) : read(mask + k * kLanes, lanes_of(k)));
    most = max(most, keep_lanes(v[k], lanes_of(k), -__builtin_inff()));
  }
  const F32 top = F32::set1(max_of_lanes(most));
  F32 sums[2] = {F32::zero(), F32::zero()};  // as sum_of() adds: a last vector with fewer lanes to the second
  for (int k = 0; k < kVectors; ++k) {
    const F32 from_top = v[k] - top, term = simd::exp(from_top);
    v[k] = log ? from_top : term;
    F32& sum = sums[k < kLast || left == kLanes ? k % 2 : 1];
    sum = sum + keep_lanes(term, lanes_of(k), 0);
  }
  const float sum = sum_lanes(sums[0] + sums[1]);
  if (log) {
    const F32 offset = simd::log(F32::set1(sum));
    for (int k = 0; k < kVectors; ++k) write(y + k * kLanes, v[k] - offset, lanes_of(k));
    return;
  }
  const F32 inverse = F32::set1(static_cast<float>(1.0 / static_cast<double>(sum)));
  for (int k = 0; k < kVectors; ++k) write(y + k * kLanes, v[k] * inverse, lanes_of(k));
}

void softmax(const float* x, const float* mask, int64_t mask_step, float scale, bool log, float* y, int64_t n) {
  switch ((n + kLanes - 1) / kLanes) {
    case 1: return softmax_short<1>(x, mask, mask_step, scale, log, y, n);
    case 2: return softmax_short<2>(x, mask, mask_step, scale, log, y, n);
    case 3: return softmax_short<3>(x, mask, mask_step, scale, log, y, n);
    case 4: return softmax_short<4>(x, mask, mask_step, scale, log, y, n);
    case 5: return softmax_short<5>(x, mask, mask_step, scale, log, y, n);
    case 6: return softmax_short<6>(x, mask, mask_step, scale, log, y, n);
    case 7: return softmax_short<7>(x, mask, mask_step, scale, log, y, n);
    case 8: return softmax_short<8>(x, mask, mask_step, scale, log, y, n);
    default: break;
  }
  const F32 factor = F32::set1(scale);
  const F32 shared = mask != nullptr && mask_step == 0 ? F32::set1(*mask) : F32::zero();
  F32 most = F32::set1(-__builtin_inff());
  each(n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
    F32 v = read(x + i, lanes) * factor;
    if (mask != nullptr) v = v + (mask_step == 0 ? shared : read(mask + i, lanes));
    write(y + i, v, lanes);
    most = max(most, keep_lanes(v, lanes, -__builtin_inff()));
  });
  const F32 top = F32::set1(max_of_lanes(most));
  if (log) {
    const double sum = sum_of(n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
      return keep_lanes(simd::exp(read(y + i, lanes) - top), lanes, 0);
    });
    float lane[F32::kLanes];
    store(lane, simd::log(F32::set1(static_cast<float>(sum))));
    const F32 offset = F32::set1(lane[0]);
    return each(n, [&](int64_t i, int64_t lanes)
                       __attribute__((always_inline)) { write(y + i, (read(y + i, lanes) - top) - offset, lanes); });
  }
  const double sum = sum_of(n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
    const F32 e = simd::exp(read(y + i, lanes) - top);
    write(y + i, e, lanes);
    return keep_lanes(e, lanes, 0);
  });
  const F32 inverse = F32::set1(static_cast<float>(1.0 / sum));
  each(n, [&](int64_t i, int64_t lanes)
              __attribute__((always_inline)) { write(y + i, read(y + i, lanes) * inverse, lanes); });
}

void softmax_columns(const float* x, float scale, bool log, float* y, int64_t axis, int64_t inner, int64_t columns) {
  const F32 factor = F32::set1(scale);
  each(columns, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
    F32 top = F32::set1(-__builtin_inff());
    for (int64_t k = 0; k < axis; ++k) top = max(top, read(x + k * inner + c, lanes) * factor);
    F32 sum = F32::zero(), part = F32::zero();
    for (int64_t k = 0; k < axis; ++k) {
      const F32 v = read(x + k * inner + c, lanes) * factor - top;
      const F32 e = simd::exp(v);
      write(y + k * inner + c, log ? v : e, lanes);
      part = part + e;
      if (k % 64 == 63) {
        sum = sum + part;
        part = F32::zero();
      }
    }
    sum = sum + part;
    const F32 last = log ? simd::log(sum) : F32::set1(1.0f) / sum;
    for (int64_t k = 0; k < axis; ++k) {
      float* p = y + k * inner + c;
      const F32 v = read(p, lanes);
      write(p, log ? v - last : v * last, lanes);
    }
  });
}

PERI_SIMD F32 input_of(const NormRow& r, int64_t i, int64_t lanes) {
  F32 v = read(r.x + i, lanes);
  if (r.residual != nullptr) v = v + read(r.residual + i, lanes);
  if (r.residual_bias != nullptr) v = v + read(r.residual_bias + i, lanes);
  return v;
}

// The row to normalise: x itself, or x + residual stored in sum_out or y (read before it is overwritten).
PERI_SIMD const float* settle_input(const NormRow& r) {
  if (r.residual == nullptr && r.residual_bias == nullptr) {
    if (r.sum_out != nullptr && r.sum_out != r.x)
      __builtin_memcpy(r.sum_out, r.x, static_cast<size_t>(r.n) * sizeof(float));
    return r.x;
  }
  float* to = r.sum_out != nullptr ? r.sum_out : r.y;
  each(r.n,
       [&](int64_t i, int64_t lanes) __attribute__((always_inline)) { write(to + i, input_of(r, i, lanes), lanes); });
  return to;
}

PERI_SIMD void scale_row(const NormRow& r, const float* v, F32 mean, F32 inverse) {
  each(r.n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
    F32 u = (read(v + i, lanes) - mean) * inverse;
    if (r.scale != nullptr) u = u * read(r.scale + i, lanes);
    if (r.bias != nullptr) u = u + read(r.bias + i, lanes);
    write(r.y + i, u, lanes);
  });
}

void moments(const float* x, int64_t n, float epsilon, float* stats) {
  const double count = static_cast<double>(n);
  const double sum =
      sum_of(n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) { return read(x + i, lanes); });
  const double mean = sum / count;
  const F32 about = F32::set1(static_cast<float>(mean));
  const double squares = sum_of(n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
    const F32 d = keep_lanes(read(x + i, lanes) - about, lanes, 0);
    return d * d;
  });
  const double shift = mean - static_cast<double>(static_cast<float>(mean));
  const double variance = squares / count - shift * shift;
  stats[0] = static_cast<float>(mean);
  stats[1] = static_cast<float>(1.0 / __builtin_sqrt((variance > 0           ? variance
                                                      : variance == variance ? 0
                                                                             : variance) +
                                                     static_cast<double>(epsilon)));
}

void layer_norm(const NormRow& row, float* stats) {
  const float* v = settle_input(row);
  moments(v, row.n, row.epsilon, stats);
  scale_row(row, v, F32::set1(stats[0]), F32::set1(stats[1]));
}

void rms_norm(const NormRow& row, float* stats) {
  const float* v = settle_input(row);
  const double squares = sum_of(row.n, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
    const F32 u = read(v + i, lanes);
    return u * u;
  });
  stats[0] = 0;
  stats[1] =
      static_cast<float>(1.0 / __builtin_sqrt(squares / static_cast<double>(row.n) + static_cast<double>(row.epsilon)));
  scale_row(row, v, F32::zero(), F32::set1(stats[1]));
}

void affine(const float* x, float mean, float a, float b, float* y, int64_t n) {
  const F32 vm = F32::set1(mean), va = F32::set1(a), vb = F32::set1(b);
  each(n, [&](int64_t i, int64_t lanes)
              __attribute__((always_inline)) { write(y + i, fma(read(x + i, lanes) - vm, va, vb), lanes); });
}

template <class F>
PERI_SIMD void join_columns(const float* x, const float* weights, float* y, int64_t axis, int64_t inner,
                            int64_t columns, F32 start, float factor, F join) {
  each(columns, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
    F32 all = start, part = start;
    for (int64_t k = 0; k < axis; ++k) {
      F32 v = read(x + k * inner + c, lanes);
      if (weights != nullptr) v = v * F32::set1(weights[k]);
      part = join(part, v);
      if (k % 64 == 63) {
        all = join(all, part);
        part = start;
      }
    }
    write(y + c, join(all, part) * F32::set1(factor), lanes);
  });
}

void join_axis(int kind, const float* x, const float* weights, float* y, int64_t axis, int64_t inner, int64_t columns,
               float factor) {
  const F32 inf = F32::set1(__builtin_inff());
  if (kind == 1)
    return join_columns(x, weights, y, axis, inner, columns, -inf, factor,
                        [](F32 a, F32 b) __attribute__((always_inline)) { return max(a, b); });
  if (kind == 2)
    return join_columns(x, weights, y, axis, inner, columns, inf, factor,
                        [](F32 a, F32 b) __attribute__((always_inline)) { return min(a, b); });
  join_columns(x, weights, y, axis, inner, columns, F32::zero(), factor,
               [](F32 a, F32 b) __attribute__((always_inline)) { return a + b; });
}

uint64_t beyond(const float* x, float bound, bool above) {
  const F32 b = F32::set1(bound);
  uint64_t within = 0;
  for (int64_t i = 0; i < 64; i += kLanes) {
    const F32 v = F32::load(x + i);
    within |= static_cast<uint64_t>(bits_of(above ? le(v, b) : ge(v, b))) << i;
  }
  return ~within;
}

void best_of_short(const float* x, int64_t n, int64_t k, bool largest, int32_t* indices) {
  using I32 = F32::Int;
  constexpr int32_t kNone = INT32_MIN, kNan = 0x7f800001;  // below any number's key, and above
  alignas(64) int32_t keys[kMaxShort];
  const I32 none = I32::set1(kNone), flip = I32::set1(largest ? 0 : -1);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t lanes = n - i < kLanes ? n - i : kLanes;
    F32 v = read(x + i, lanes);
    v = select(eq(v, F32::zero()), F32::zero(), v);
    const I32 bits = as_int(v);
    I32 key = bits ^ (simd::PERI_ISA::shift_right<31>(bits) & I32::set1(INT32_MAX));  // grows with the number
    key = select(is_nan(v), I32::set1(kNan), key) ^ flip;
    store(keys + i, lanes == kLanes ? key : select(simd::PERI_ISA::mask_of_first(lanes), key, none));
  }
  // One key at a time, with all its places.
  I32 below = I32::set1(INT32_MAX);
  for (int64_t found = 0; found < k;) {
    I32 most = none;
    for (int64_t i = 0; i < n; i += kLanes) {
      const I32 key = I32::load(keys + i);
      most = max(most, select(gt(below, key), key, none));
    }
    below = I32::set1(max_lanes(most));
    for (int64_t i = 0; i < n && found < k; i += kLanes) {
      for (uint32_t places = bits_of(eq(I32::load(keys + i), below)); places != 0 && found < k; places &= places - 1)
        indices[found++] = static_cast<int32_t>(i + __builtin_ctz(places));
    }
  }
}

const Loops kLoops = {softmax, softmax_columns, layer_norm, rms_norm,     moments,
                      affine,  join_axis,       beyond,     best_of_short};

}  // namespace peri::kernels::cpu::rows::PERI_ISA
