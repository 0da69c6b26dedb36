// A warp has 16 queries; keys and values are streamed in blocks of 64, copied into shared memory while earlier ones are
// processed, together with the mask's addend for each key. Scores, their maximum and sum never leave registers.
#include "kernels/cuda/code/attention_text.hpp"

#include <string>

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kLoads = R"(
enum { kThreads = PERI_WARPS * 32, kQueries = PERI_WARPS * 16, kRowQ = PERI_ROW_Q / 8, kRowV = PERI_ROW_V / 8 };
enum { kKeys = 64, kBytesQ = kQueries * PERI_ROW_Q * 2, kBytesK = kKeys * PERI_ROW_Q * 2, kBytesV = kKeys * PERI_ROW_V * 2 };
enum { kDepthSteps = (PERI_DEPTH + 15) / 16, kValueSteps = (PERI_VALUES + 15) / 16, kStrip = kValueSteps * 16 + 4 };
enum { kMasks = PERI_STAGES * kKeys, kMaskEach = kKeys > kThreads ? kKeys / kThreads : 1 };
// Rows of queries, keys or values: 16-byte chunks, zeros outside.
template <int kRows, int kChunks, int kSize>
PERI_DEVICE void peri_rows(const unsigned at, const unsigned short* from, const PERI_INDEX step, const PERI_INDEX first,
                           const PERI_INDEX count) {
  enum { kEach = kThreads / kChunks };
  const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
  const unsigned short* const mine = from + (first + row) * step + chunk * 8;
#pragma unroll
  for (int k = 0; k < (kRows + kEach - 1) / kEach; ++k) {
    const int r = row + k * kEach;
    if (kRows % kEach != 0 && r >= kRows) break;
    peri_fetch(at + peri_chunk(r, chunk, kChunks), mine + k * kEach * step, first + r < count && chunk * 8 < kSize);
  }
}
)";

constexpr std::string_view kKernel = R"(
// Scores count in powers of two. A finite mask stays one: -3.4e38 for all keys hides none.
PERI_DEVICE float peri_units(const float m) {
  const float u = m * 1.44269504f;
  return m >= -3.4028235e38f ? peri_max(u, -3.4028235e38f) : u;
}
// Joins a block's scores to a row's maximum and sum; s becomes 2^(s - maximum), the sums so far shrink by what is given.
PERI_DEVICE void peri_join_rows(float (*s)[4], float* high, float* sum, float* shrink) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = peri_max(s[0][2 * r], s[0][2 * r + 1]);
#pragma unroll
    for (int n = 1; n < 8; ++n) most = peri_max(peri_max(most, s[n][2 * r]), s[n][2 * r + 1]);
    most = peri_max(most, peri_lane_xor(most, 1));
    most = peri_max(peri_max(most, peri_lane_xor(most, 2)), high[r]);
    const float from = most == -peri_inf() ? 0.0f : most;  // nothing seen yet: all are 2^-inf
    shrink[r] = peri_exp2(high[r] - from);
    high[r] = most;
    float part = 0.0f;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        s[n][e] = peri_exp2(s[n][e] - from);
        part += s[n][e];
      }
    sum[r] = fmaf(sum[r], shrink[r], part);  // of this lane's keys
  }
}
PERI_KERNEL __launch_bounds__(kThreads, PERI_RESIDENT) peri_attention(PERI_PARAMETERS) {
  PERI_DYNAMIC(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const PERI_INDEX tiles = (PERI_QUERIES + kQueries - 1) / kQueries;
  PERI_INDEX rest = blockIdx.x;
  const PERI_INDEX first = rest % tiles * kQueries; rest /= tiles;
  const PERI_INDEX h = rest % PERI_HEADS, b = rest / PERI_HEADS, kv = h / PERI_SHARING;
  const unsigned base = peri_shared_at(memory), q_at = base, stages = base + kBytesQ + kMasks * 4;
  float* const masks = memory + kBytesQ / 4;
  const unsigned short *const k_from = PERI_K + PERI_K_AT(b, kv, 0, 0), *const v_from = PERI_V + PERI_V_AT(b, kv, 0, 0);
  const PERI_INDEX seen = PERI_SEEN(first + kQueries - 1), blocks = (seen + kKeys - 1) / kKeys;
  const PERI_INDEX query = first + warp * 16;
  const auto fetch = [&](const PERI_INDEX block, const int stage) {
    const unsigned at = stages + stage * (kBytesK + kBytesV);
    peri_rows<kKeys, kRowQ, PERI_DEPTH>(at, k_from, PERI_K_AT(0, 0, 1, 0), block * kKeys, PERI_KEYS);
    peri_rows<kKeys, kRowV, PERI_VALUES>(at + kBytesK, v_from, PERI_V_AT(0, 0, 1, 0), block * kKeys, PERI_KEYS);
  };
  // What is added to the scores of a block's keys: keys outside are hidden.
  float mask[kMaskEach];
  const auto read_mask = [&](const PERI_INDEX block) {
#pragma unroll
    for (int k = 0; k < kMaskEach; ++k) {
      const PERI_INDEX j = block * kKeys + threadIdx.x + k * kThreads;
      mask[k] = -peri_inf();
      if (threadIdx.x < kKeys && j < PERI_KEYS) mask[k] = PERI_KEY_MASK;
    }
  };
  const auto put_mask = [&](const int stage) {
#pragma unroll
    for (int k = 0; k < kMaskEach; ++k)
      if (threadIdx.x < kKeys) masks[stage * kKeys + threadIdx.x + k * kThreads] = mask[k];
  };
  peri_rows<kQueries, kRowQ, PERI_DEPTH>(q_at, PERI_Q + PERI_Q_AT(b, h, 0, 0), PERI_Q_AT(0, 0, 1, 0), first, PERI_QUERIES);
#pragma unroll
  for (int k = 0; k < PERI_STAGES - 1; ++k) {
    if (k < blocks) fetch(k, k);
    peri_fetched();
  }
#pragma unroll
  for (int k = 0; k < PERI_STAGES - 1; ++k) {
    read_mask(k);
    put_mask(k);
  }
  float out[kValueSteps * 2][4], high[2] = {-peri_inf(), -peri_inf()}, sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < kValueSteps * 2; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) out[n][e] = 0.0f;
  // Where a lane's rows of keys and values begin, by step of their depth: sixteen rows on, chunks turn alike.
  unsigned k_lane[kDepthSteps], v_lane[kValueSteps];
#pragma unroll
  for (int d = 0; d < kDepthSteps; ++d) k_lane[d] = peri_chunk((lane >> 4) * 8 + (lane & 7), d * 2 + ((lane >> 3) & 1), kRowQ);
#pragma unroll
  for (int n = 0; n < kValueSteps; ++n) v_lane[n] = peri_chunk(lane & 15, n * 2 + (lane >> 4), kRowV);
  int now = 0, next = PERI_STAGES - 1;
  for (PERI_INDEX block = 0; block < blocks; ++block) {
    const unsigned k_at = stages + now * (kBytesK + kBytesV), v_at = k_at + kBytesK;
    const PERI_INDEX key = block * kKeys;
    const bool more = block + PERI_STAGES - 1 < blocks;
    peri_wait<PERI_STAGES - 2>();
    __syncthreads();
    if (more) fetch(block + PERI_STAGES - 1, next), read_mask(block + PERI_STAGES - 1);
    peri_fetched();
    if (key < PERI_SEEN(query + 15)) {
      float s[8][4];
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = 0.0f;
#pragma unroll
      for (int d = 0; d < kDepthSteps; ++d) {
        unsigned q[4];
        peri_matrices(q, q_at + peri_chunk(warp * 16 + (lane & 15), d * 2 + (lane >> 4), kRowQ));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          unsigned k[4];
          peri_matrices(k, k_at + k_lane[d] + n * 16 * kRowQ * 16);
          PERI_MULTIPLY(s[2 * n], q, k);
          PERI_MULTIPLY(s[2 * n + 1], q, k + 2);
        }
      }
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float m = masks[now * kKeys + n * 8 + lane % 4 * 2 + e];
          s[n][e] = PERI_SCORE(s[n][e], m), s[n][2 + e] = PERI_SCORE(s[n][2 + e], m);
        }
#if PERI_BY_QUERY
      // What else depends on the query too. Those outside are as the last one.
      if (PERI_TOUCHED(query, key)) {
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const PERI_INDEX i = peri_least(query + lane / 4 + e / 2 * 8, PERI_QUERIES - 1), j = key + n * 8 + lane % 4 * 2 + e % 2;
            if (j < PERI_KEYS) s[n][e] = peri_joined(s[n][e], b, h, i, j, PERI_PASS);
          }
      }
#endif
      float shrink[2];
      peri_join_rows(s, high, sum, shrink);
      if (block > 0) {
#pragma unroll
        for (int n = 0; n < kValueSteps * 2; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) out[n][e] *= shrink[e / 2];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned p[4] = {PERI_PAIR(s[2 * j][0], s[2 * j][1]), PERI_PAIR(s[2 * j][2], s[2 * j][3]),
                               PERI_PAIR(s[2 * j + 1][0], s[2 * j + 1][1]), PERI_PAIR(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
        for (int n = 0; n < kValueSteps; ++n) {
          unsigned v[4];
          peri_matrices_across(v, v_at + v_lane[n] + j * 16 * kRowV * 16);
          PERI_MULTIPLY(out[2 * n], p, v);
          PERI_MULTIPLY(out[2 * n + 1], p, v + 2);
        }
      }
    }
    if (more) put_mask(next);
    now = now == PERI_STAGES - 1 ? 0 : now + 1, next = next == PERI_STAGES - 1 ? 0 : next + 1;
  }
  peri_wait<0>();
  __syncthreads();
  float* const strip = memory + warp * 16 * kStrip;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += peri_lane_xor(sum[r], 1);
    sum[r] += peri_lane_xor(sum[r], 2);
    const float share = PERI_ZERO_HIDDEN && high[r] == -peri_inf() ? 1.0f : 1.0f / sum[r];
#pragma unroll
    for (int n = 0; n < kValueSteps * 2; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        strip[(lane / 4 + r * 8) * kStrip + n * 8 + lane % 4 * 2 + e] = out[n][2 * r + e] * share;
  }
  peri_lanes_meet();
  for (int c = lane; c < 16 * (PERI_VALUES / 8); c += 32) {
    const int row = c / (PERI_VALUES / 8), d = c % (PERI_VALUES / 8) * 8;
    float v[8];
    peri_load_8_f32(strip + row * kStrip + d, v);
    if (query + row < PERI_QUERIES) peri_finish_8(PERI_Y_AT(b, h, query + row, d), v, PERI_PASS);
  }
}
)";
}  // namespace

std::string_view attention_text() {
  static const std::string kText = std::string(kLoads) + std::string(kKernel);
  return kText;
}

}  // namespace peri::kernels::cuda
