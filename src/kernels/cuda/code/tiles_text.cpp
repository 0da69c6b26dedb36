// Loops over a tile have constant trip counts.
#include "kernels/cuda/code/tiles_text.hpp"

#include <string>

#include "kernels/cuda/code/tiles_sides.hpp"
#include "kernels/cuda/code/warp.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kCommon = R"(
enum { kThreads = PERI_DOWN * PERI_ACROSS * 32, kWarpM = PERI_TM / PERI_DOWN, kWarpN = PERI_TN / PERI_ACROSS };
enum { kFragmentsM = kWarpM / 16, kFragmentsN = kWarpN / 8, kStrip = kWarpN + 4 };
// Of bytes what columns have of their own is read before the sums are there, and rows have sums of a, if they need them.
#if PERI_BYTES
#define PERI_SUM(V, ROW, B, M, N) peri_sum(V, ROW, B, M, N, PERI_PASS)
#define PERI_SUM_8(V, EARLY, ROW, B, M, N) peri_sum_8(V, EARLY, ROW, B, M, N, PERI_PASS)
#else
struct peri_early {};
#define PERI_SUM(V, ROW, B, M, N) peri_sum(V, B, M, N, PERI_PASS)
#define PERI_SUM_8(V, EARLY, ROW, B, M, N) peri_sum_8(V, B, M, N, PERI_PASS)
#endif
// Operands of the chain are read for so many strips of sixteen rows at once, as far as registers hold them.
#define PERI_AHEAD (PERI_HELD > 0 && PERI_C_WIDE && !PERI_PARTED)
enum { kEnds = kWarpN >= 16 ? kWarpN / 16 : 1, kAheadAll = 16 / (kEnds * (PERI_HELD > 0 ? PERI_HELD : 1)) };
enum { kAhead = kAheadAll < 1 ? 1 : kAheadAll > kFragmentsM ? kFragmentsM : kAheadAll };
// Where a cluster joins its parts: floats from row to row of a part's tile, and how often a thread ends eight of a row.
enum { kTileRow = PERI_TN + 8, kOwn = PERI_TM * PERI_TN / 8 / PERI_SPLIT, kTurns = (kOwn + kThreads - 1) / kThreads };
)";

constexpr std::string_view kKernel = R"(
// A warp's operands of sixteen steps of the depth, from shared memory.
// Where chunk 2 * kk + `side` of a row is; tiles whose rows fill a turn of eight begin at a multiple of them.
PERI_DEVICE unsigned peri_turned(const unsigned at, const int row, const int side, const int kk, const int chunks) {
  return chunks >= 8 ? (at + peri_chunk(row, side, chunks)) ^ (unsigned)(kk * 32) : at + peri_chunk(row, kk * 2 + side, chunks);
}
struct peri_fragments { unsigned a[kFragmentsM][4], b[kFragmentsN / 2][4]; };
PERI_DEVICE void peri_read(peri_fragments* f, const unsigned a_at, const unsigned b_at, const int kk) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m = warp / PERI_ACROSS * kWarpM, n = warp % PERI_ACROSS * kWarpN;
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
#if PERI_A_ALONG_M
    peri_matrices_across(f->a[i], a_at + peri_chunk(kk * 16 + (lane >> 4) * 8 + (lane & 7), m / 8 + i * 2 + ((lane >> 3) & 1), kaChunks));
#else
    peri_matrices(f->a[i], peri_turned(a_at, m + (lane & 15), lane >> 4, kk, kaChunks) + i * 16 * kaChunks * 16);
#endif
  }
#pragma unroll
  for (int j = 0; j < kFragmentsN / 2; ++j) {
#if PERI_B_ALONG_N
    peri_matrices_across(f->b[j], b_at + peri_chunk(kk * 16 + ((lane >> 3) & 1) * 8 + (lane & 7), n / 8 + j * 2 + (lane >> 4), kbChunks));
#else
    peri_matrices(f->b[j], peri_turned(b_at, n + (lane >> 4) * 8 + (lane & 7), (lane >> 3) & 1, kk, kbChunks) + j * 16 * kbChunks * 16);
#endif
  }
}
// The next ones are read while those at hand are multiplied.
PERI_DEVICE void peri_multiply(float (*sum)[kFragmentsN][4], float (*rows)[4], const unsigned a_at, const unsigned b_at) {
  peri_fragments f[2];
  peri_read(&f[0], a_at, b_at, 0);
#pragma unroll
  for (int kk = 0; kk < PERI_TK / 16; ++kk) {
    if (kk + 1 < PERI_TK / 16) peri_read(&f[(kk + 1) % 2], a_at, b_at, kk + 1);
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) PERI_MULTIPLY(sum[i][j], f[kk % 2].a[i], f[kk % 2].b[j / 2] + j % 2 * 2);
#if PERI_ROWS
    const unsigned ones[2] = {0x01010101u, 0x01010101u};
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) PERI_MULTIPLY(rows[i], f[kk % 2].a[i], ones);
#endif
  }
}
// Eight sums of a row from n on: stored as they are, or finished.
PERI_DEVICE void peri_end_8(const peri_held* held, const float* bias, const peri_early& early, float* v, const int row,
                            const PERI_INDEX part, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
#if PERI_PARTED
  const PERI_INDEX at = ((part * PERI_BATCH + batch) * PERI_M + m) * PERI_N + n;
#if PERI_C_WIDE
  peri_store_8_f32(PERI_PARTS + at, v);
#else
  for (int e = 0; e < 8; ++e)
    if (n + e < PERI_N) PERI_PARTS[at + e] = v[e];
#endif
#elif PERI_C_WIDE
#if PERI_COLUMN
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] = peri_scaled(v[e]) + bias[e];
#else
  PERI_SUM_8(v, early, row, batch, m, n);
#endif
#if PERI_AHEAD
  peri_finish_held_8(held, peri_place(batch, m, n, PERI_PASS), v, PERI_PASS);
#else
  peri_finish_8(peri_place(batch, m, n, PERI_PASS), v, PERI_PASS);
#endif
#else
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (n + e < PERI_N)
      peri_finish(peri_place(batch, m, n + e, PERI_PASS), PERI_SUM(v[e], row, batch, m, n + e), PERI_PASS);
#endif
}
#if PERI_CLUSTER
// The blocks of a cluster hold the parts of one tile in their shared memory from `at` on. Each of them ends a share of
// the tile's rows: what all of them have of it, added in the order of the parts.
PERI_DEVICE void peri_join(const unsigned at, const peri_early& early, const int part, const PERI_INDEX batch,
                           const PERI_INDEX m0, const PERI_INDEX n0, PERI_PARAMETERS) {
  peri_cluster_arrive();
  // Meanwhile what the chain reads; a thread's columns are the same in all turns.
  peri_held held;
  float bias[8];
  const PERI_INDEX n = n0 + threadIdx.x % (PERI_TN / 8) * 8;
#if PERI_COLUMN && PERI_C_WIDE
  if (n < PERI_N) peri_column_8(bias, batch, n, PERI_PASS);
#endif
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int own = threadIdx.x + turn * kThreads, row = (part * kOwn + own) / (PERI_TN / 8);
    const PERI_INDEX m = m0 + row;
    const bool there = own < kOwn && m < PERI_M && n < PERI_N;
#if PERI_AHEAD
    peri_hold_8(&held, there ? peri_place(batch, m, n, PERI_PASS) : 0, PERI_PASS);
#endif
    if (turn == 0) peri_cluster_wait();
    float v[8], of[PERI_SPLIT][8];
    if (there) {
      const unsigned from = at + (unsigned)(row * kTileRow + threadIdx.x % (PERI_TN / 8) * 8) * 4;
#pragma unroll
      for (int p = 0; p < PERI_SPLIT; ++p) peri_peer_8(of[p], from, p);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        v[e] = of[0][e];
#pragma unroll
        for (int p = 1; p < PERI_SPLIT; ++p) v[e] = PERI_ADD(v[e], of[p][e]);
      }
    }
    int row_sum = 0;
#if PERI_ROWS
#pragma unroll
    for (int p = 0; there && p < PERI_SPLIT; ++p)
      row_sum += (int)peri_word(peri_peer(at + (unsigned)(row * kTileRow + PERI_TN) * 4, p));
#endif
    if (turn == kTurns - 1) peri_cluster_arrive();
    if (there) peri_end_8(&held, bias, early, v, row_sum, part, batch, m, n, PERI_PASS);
  }
  peri_cluster_wait();  // a block's memory stays until all have read it
}
#endif
PERI_KERNEL __launch_bounds__(kThreads, 1) peri_tiles(PERI_PARAMETERS) {
  PERI_DYNAMIC(memory);
  const PERI_INDEX tiles_m = (PERI_M + PERI_TM - 1) / PERI_TM, tiles_n = (PERI_N + PERI_TN - 1) / PERI_TN;
  PERI_INDEX rest = blockIdx.x;
  const PERI_INDEX part = rest % PERI_SPLIT; rest /= PERI_SPLIT;
  const PERI_INDEX n0 = rest % tiles_n * PERI_TN; rest /= tiles_n;
  const PERI_INDEX batch = PERI_BATCH == 1 ? 0 : rest / tiles_m, m0 = (rest - batch * tiles_m) * PERI_TM;
  const PERI_INDEX depth = (PERI_K + PERI_PART * PERI_SPLIT - 1) / (PERI_PART * PERI_SPLIT) * PERI_PART;
  const PERI_INDEX begin = part * depth, end = PERI_SPLIT == 1 || begin + depth > PERI_K ? PERI_K : begin + depth;
  const int steps = end > begin ? (int)((end - begin + PERI_TK - 1) / PERI_TK) : 0;
  const unsigned base = peri_shared_at(memory);
  peri_a_copy a;
  peri_b_copy b;
  peri_a_begin(&a, batch, m0, PERI_PASS);
  peri_b_begin(&b, batch, n0, PERI_PASS);
  float sum[kFragmentsM][kFragmentsN][4], rows[kFragmentsM][4];
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      rows[i][e] = 0.0f;
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) sum[i][j][e] = 0.0f;
    }
  peri_early early;
#if PERI_BYTES && PERI_C_WIDE && !PERI_PARTED
  const PERI_INDEX own_n = n0 + (PERI_CLUSTER ? (int)threadIdx.x % (PERI_TN / 8) * 8
                                              : (int)threadIdx.x / 32 % PERI_ACROSS * kWarpN + (int)threadIdx.x % (kWarpN / 8) * 8);
  if (own_n < PERI_N) peri_early_8(&early, batch, own_n, PERI_PASS);
#endif
  enum { kStage = kaBytes + kbBytes };
#pragma unroll
  for (int s = 0; s < PERI_STAGES - 1; ++s) {
    if (s < steps) {
      const unsigned at = base + s * kStage;
      peri_b_fetch(&b, at + kaBytes, batch, begin + s * PERI_TK, PERI_PASS);
      peri_a_fetch(&a, at, batch, begin + s * PERI_TK, PERI_PASS);
      peri_a_put(&a, at, PERI_PASS);
      peri_b_put(&b, at + kaBytes, PERI_PASS);
    }
    peri_fetched();
  }
  unsigned now = base, next = base + (PERI_STAGES - 1) * kStage;
  for (int s = 0; s < steps; ++s) {
    peri_wait<PERI_STAGES - 2>();
    __syncthreads();
    const bool more = s + PERI_STAGES - 1 < steps;
    if (more) {
      const PERI_INDEX k = begin + (s + PERI_STAGES - 1) * PERI_TK;
      peri_a_fetch(&a, next, batch, k, PERI_PASS);
      peri_b_fetch(&b, next + kaBytes, batch, k, PERI_PASS);
    }
    peri_fetched();
    peri_multiply(sum, rows, now, now + kaBytes);
    if (more) peri_a_put(&a, next, PERI_PASS), peri_b_put(&b, next + kaBytes, PERI_PASS);
    now = now == base + (PERI_STAGES - 1) * kStage ? base : now + kStage;
    next = next == base + (PERI_STAGES - 1) * kStage ? base : next + kStage;
  }
  peri_wait<0>();
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if PERI_CLUSTER
  const int row1 = warp / PERI_ACROSS * kWarpM + lane / 4, column1 = warp % PERI_ACROSS * kWarpN + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
    for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        memory[(row1 + i * 16 + e / 2 * 8) * kTileRow + column1 + j * 8 + e % 2] = sum[i][j][e];
#if PERI_ROWS
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
    for (int e = 0; e < 4; e += 2)
      if (warp % PERI_ACROSS == 0 && lane % 4 == 0) memory[(row1 + i * 16 + e / 2 * 8) * kTileRow + PERI_TN] = rows[i][e];
#endif
  peri_join(base, early, (int)part, batch, m0, n0, PERI_PASS);
#else
  // Sums lie with a warp's lanes in pairs; through shared memory each lane gets eight neighbours of a row.
  float* const strip = memory + warp * 16 * kStrip;
  const PERI_INDEX m1 = m0 + warp / PERI_ACROSS * kWarpM, n1 = n0 + warp % PERI_ACROSS * kWarpN;
  peri_held held[kAhead][kEnds];
  float bias[8];  // the columns of a lane are the same in all strips
#if PERI_COLUMN && PERI_C_WIDE && !PERI_PARTED
  if (n1 + lane % (kWarpN / 8) * 8 < PERI_N) peri_column_8(bias, batch, n1 + lane % (kWarpN / 8) * 8, PERI_PASS);
#endif
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
#if PERI_AHEAD
    if (i % kAhead == 0) {
#pragma unroll
      for (int k = 0; k < kAhead * kEnds; ++k) {
        const int c = lane + k % kEnds * 32;
        const PERI_INDEX m = m1 + (i + k / kEnds) * 16 + c / (kWarpN / 8), n = n1 + c % (kWarpN / 8) * 8;
        peri_hold_8(&held[k / kEnds][k % kEnds], m < PERI_M && n < PERI_N ? peri_place(batch, m, n, PERI_PASS) : 0, PERI_PASS);
      }
    }
#endif
#pragma unroll
    for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        strip[(lane / 4 + e / 2 * 8) * kStrip + j * 8 + lane % 4 * 2 + e % 2] = sum[i][j][e];
#if PERI_ROWS
    if (lane % 4 == 0) strip[lane / 4 * kStrip + kWarpN] = rows[i][0], strip[(lane / 4 + 8) * kStrip + kWarpN] = rows[i][2];
#endif
    peri_lanes_meet();
#pragma unroll
    for (int k = 0; k < kEnds; ++k) {
      const int c = lane + k * 32, row = c / (kWarpN / 8), column = c % (kWarpN / 8) * 8;
      const PERI_INDEX m = m1 + i * 16 + row, n = n1 + column;
      float v[8];
      peri_load_8_f32(strip + row * kStrip + column, v);
      const int row_sum = PERI_ROWS ? (int)peri_word(strip[row * kStrip + kWarpN]) : 0;
      if (m < PERI_M && n < PERI_N) peri_end_8(&held[i % kAhead][k], bias, early, v, row_sum, part, batch, m, n, PERI_PASS);
    }
    peri_lanes_meet();
  }
#endif
}
)";

// The parts of each sum, in order.
constexpr std::string_view kJoin = R"(
PERI_KERNEL __launch_bounds__(256) peri_join_parts(PERI_PARAMETERS) {
  enum { kEach = PERI_C_WIDE ? 8 : 1 };
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256 * kEach, count = PERI_BATCH * PERI_M * PERI_N;
  for (PERI_INDEX i = ((PERI_INDEX)blockIdx.x * 256 + threadIdx.x) * kEach; i < count; i += step) {
    const PERI_INDEX n = i % PERI_N, m = i / PERI_N % PERI_M, batch = i / PERI_N / PERI_M;
#if PERI_C_WIDE
    float v[8], part[PERI_SPLIT][8];
#pragma unroll
    for (int p = 0; p < PERI_SPLIT; ++p) peri_load_8_f32(PERI_PARTS + p * count + i, part[p]);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      v[e] = part[0][e];
#pragma unroll
      for (int p = 1; p < PERI_SPLIT; ++p) v[e] = PERI_ADD(v[e], part[p][e]);
    }
    peri_early early;
#if PERI_BYTES
    peri_early_8(&early, batch, n, PERI_PASS);
#endif
    PERI_SUM_8(v, early, 0, batch, m, n);
    peri_finish_8(peri_place(batch, m, n, PERI_PASS), v, PERI_PASS);
#else
    float sum = 0.0f;
    for (int p = 0; p < PERI_SPLIT; ++p) sum = PERI_ADD(sum, PERI_PARTS[p * count + i]);
    peri_finish(peri_place(batch, m, n, PERI_PASS), PERI_SUM(sum, 0, batch, m, n), PERI_PASS);
#endif
  }
}
)";
}  // namespace

std::string_view tiles_head() {
  static const std::string kText(warp_text());
  return kText;
}

std::string_view tiles_text() {
  static const std::string kText = std::string(kCommon) + tiles_sides_text() + std::string(kKernel);
  return kText;
}

std::string_view join_text() { return kJoin; }

}  // namespace peri::kernels::cuda
