// Tiles are stored in shared memory in rows of 16-byte chunks, whose order within a row is permuted by the row index:
// the eight rows that are read as a matrix have no bank conflicts. Loops over a tile have constant trip counts.
#include "kernels/cuda/code/tiles_text.hpp"

#include <string>

#include "kernels/cuda/code/warp.hpp"

namespace peri::kernels::cuda {

namespace {
// What a thread copies of a side's tile: its chunk of every so many rows. X, x, line size and along as names.
constexpr std::string_view kSide = R"(
// Rows of the tile of @: lines with neighbours along the depth, or steps of the depth with neighbouring lines.
enum { k@Rows = @ALONG ? PERI_TK : @LINES, k@Chunks = (@ALONG ? @LINES : PERI_TK) / 8 };
enum { k@Bytes = k@Rows * k@Chunks * 16, k@Each = (k@Rows * k@Chunks + kThreads - 1) / kThreads };
struct peri_@_copy {
  peri_@_line line[@ALONG ? (@WIDE ? 1 : 8) : k@Each];
  peri_16 held[@HELD ? k@Each : 1];
#if @MADE
  peri_@_step step;  // of what is held
#endif
};
PERI_DEVICE int peri_@_row(const int j) { return threadIdx.x / k@Chunks + j * (kThreads / k@Chunks); }
// Eight rows on, chunks turn alike.
PERI_DEVICE unsigned peri_@_place(const int j) {
  const int chunk = threadIdx.x % k@Chunks;
  if (kThreads / k@Chunks % 8 != 0) return peri_chunk(peri_@_row(j), chunk, k@Chunks);
  return peri_chunk(peri_@_row(0), chunk, k@Chunks) + (unsigned)(j * (kThreads / k@Chunks) * k@Chunks * 16);
}
PERI_DEVICE bool peri_@_has(const int j) { return k@Rows * k@Chunks % kThreads == 0 || peri_@_row(j) < k@Rows; }
PERI_DEVICE void peri_@_begin(peri_@_copy* c, const PERI_INDEX batch, const PERI_INDEX first, PERI_PARAMETERS) {
  const int chunk = threadIdx.x % k@Chunks;
#if @ALONG
#pragma unroll
  for (int e = 0; e < (@WIDE ? 1 : 8); ++e) c->line[e] = peri_@_line_of(batch, first + chunk * 8 + e, PERI_PASS);
#else
#pragma unroll
  for (int j = 0; j < k@Each; ++j) c->line[j] = peri_@_line_of(batch, first + peri_@_row(j), PERI_PASS);
#endif
}
PERI_DEVICE void peri_@_fetch(peri_@_copy* c, const unsigned at, const PERI_INDEX batch, const PERI_INDEX k0,
                              PERI_PARAMETERS) {
  const int chunk = threadIdx.x % k@Chunks;
#if !@ALONG && @WIDE
  const peri_@_step step = peri_@_step_of(batch, k0 + chunk * 8, PERI_PASS);
#endif
#if !@ALONG && !@WIDE
  peri_@_step steps[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) steps[e] = peri_@_step_of(batch, k0 + chunk * 8 + e, PERI_PASS);
#endif
#pragma unroll
  for (int j = 0; j < k@Each; ++j) {
#if @ALONG
    const peri_@_step step = peri_@_step_of(batch, k0 + peri_@_row(j), PERI_PASS);
#endif
#if @WIDE
    bool there;
    const unsigned short* const from = peri_@_from(c->line[@ALONG ? 0 : j], step, &there, PERI_PASS);
#if @MADE
    const peri_16 zero = {{0, 0, 0, 0}};
    c->held[j] = there && peri_@_has(j) ? *(const peri_16*)from : zero;
    c->step = step;
#else
    if (peri_@_has(j)) peri_fetch(at + peri_@_place(j), from, there);
#endif
#else
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned low = @ALONG ? peri_@(c->line[@ALONG ? 2 * w : j], @STEP(2 * w), PERI_PASS)
                                  : peri_@(c->line[j], @STEP(2 * w), PERI_PASS);
      const unsigned high = @ALONG ? peri_@(c->line[@ALONG ? 2 * w + 1 : j], @STEP(2 * w + 1), PERI_PASS)
                                   : peri_@(c->line[j], @STEP(2 * w + 1), PERI_PASS);
      c->held[j].w[w] = low | high << 16;
    }
#endif
  }
}
PERI_DEVICE void peri_@_put(const peri_@_copy* c, const unsigned at, PERI_PARAMETERS) {
#if @MADE
#pragma unroll
  for (int j = 0; j < k@Each; ++j)
    if (peri_@_has(j)) peri_put(at + peri_@_place(j), peri_@_made(c->line[j], c->step, c->held[j], PERI_PASS));
#elif !@WIDE
#pragma unroll
  for (int j = 0; j < k@Each; ++j)
    if (peri_@_has(j)) peri_put(at + peri_@_place(j), c->held[j]);
#endif
}
)";

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}
// `@NAME` are the side's macros, `@` its name.
std::string side(const char* name, const char* along, const char* wide, const char* made, const char* lines) {
  std::string out(kSide);
  out = replaced(std::move(out), "@HELD", std::string("(!") + wide + " || " + made + ")");
  out = replaced(std::move(out), "@MADE", made);
  out = replaced(std::move(out), "@ALONG", along);
  out = replaced(std::move(out), "@WIDE", wide);
  out = replaced(std::move(out), "@LINES", lines);
  out = replaced(std::move(out), "@STEP", std::string("PERI_STEP_") + name);
  const std::string step = std::string("#if ") + along + "\n#define PERI_STEP_" + name +
                           "(E) step\n#else\n#define PERI_STEP_" + name + "(E) steps[E]\n#endif\n";
  return step + replaced(std::move(out), "@", name);
}

constexpr std::string_view kCommon = R"(
enum { kThreads = PERI_DOWN * PERI_ACROSS * 32, kWarpM = PERI_TM / PERI_DOWN, kWarpN = PERI_TN / PERI_ACROSS };
enum { kFragmentsM = kWarpM / 16, kFragmentsN = kWarpN / 8, kStrip = kWarpN + 4 };
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
PERI_DEVICE void peri_multiply(float (*sum)[kFragmentsN][4], const unsigned a_at, const unsigned b_at) {
  peri_fragments f[2];
  peri_read(&f[0], a_at, b_at, 0);
#pragma unroll
  for (int kk = 0; kk < PERI_TK / 16; ++kk) {
    if (kk + 1 < PERI_TK / 16) peri_read(&f[(kk + 1) % 2], a_at, b_at, kk + 1);
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) PERI_MULTIPLY(sum[i][j], f[kk % 2].a[i], f[kk % 2].b[j / 2] + j % 2 * 2);
  }
}
// Eight sums of a row from n on: stored as they are, or finished.
PERI_DEVICE void peri_end_8(const peri_held* held, const float* bias, float* v, const PERI_INDEX part, const PERI_INDEX batch, const PERI_INDEX m,
                            const PERI_INDEX n, PERI_PARAMETERS) {
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
  peri_sum_8(v, batch, m, n, PERI_PASS);
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
      peri_finish(peri_place(batch, m, n + e, PERI_PASS), peri_sum(v[e], batch, m, n + e, PERI_PASS), PERI_PASS);
#endif
}
#if PERI_CLUSTER
// The blocks of a cluster hold the parts of one tile in their shared memory from `at` on. Each of them ends a share of
// the tile's rows: what all of them have of it, added in the order of the parts.
PERI_DEVICE void peri_join(const unsigned at, const int part, const PERI_INDEX batch, const PERI_INDEX m0,
                           const PERI_INDEX n0, PERI_PARAMETERS) {
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
    if (turn == kTurns - 1) peri_cluster_arrive();
    if (there) peri_end_8(&held, bias, v, part, batch, m, n, PERI_PASS);
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
  float sum[kFragmentsM][kFragmentsN][4];
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
    for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;
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
    peri_multiply(sum, now, now + kaBytes);
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
  peri_join(base, (int)part, batch, m0, n0, PERI_PASS);
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
    peri_lanes_meet();
#pragma unroll
    for (int k = 0; k < kEnds; ++k) {
      const int c = lane + k * 32, row = c / (kWarpN / 8), column = c % (kWarpN / 8) * 8;
      const PERI_INDEX m = m1 + i * 16 + row, n = n1 + column;
      float v[8];
      peri_load_8_f32(strip + row * kStrip + column, v);
      if (m < PERI_M && n < PERI_N) peri_end_8(&held[i % kAhead][k], bias, v, part, batch, m, n, PERI_PASS);
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
    peri_sum_8(v, batch, m, n, PERI_PASS);
    peri_finish_8(peri_place(batch, m, n, PERI_PASS), v, PERI_PASS);
#else
    float sum = 0.0f;
    for (int p = 0; p < PERI_SPLIT; ++p) sum = PERI_ADD(sum, PERI_PARTS[p * count + i]);
    peri_finish(peri_place(batch, m, n, PERI_PASS), peri_sum(sum, batch, m, n, PERI_PASS), PERI_PASS);
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
  static const std::string kText = std::string(kCommon) +
                                   side("a", "PERI_A_ALONG_M", "PERI_A_WIDE", "PERI_A_MADE", "PERI_TM") +
                                   side("b", "PERI_B_ALONG_N", "PERI_B_WIDE", "0", "PERI_TN") + std::string(kKernel);
  return kText;
}

std::string_view join_text() { return kJoin; }

}  // namespace peri::kernels::cuda
