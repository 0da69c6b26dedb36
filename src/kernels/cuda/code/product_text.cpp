// Operands are fetched into registers, or by asynchronous copies, while tiles before them are worked on, and staged in
// shared memory.
#include "kernels/cuda/code/product_text.hpp"

#include <string>

#include "kernels/cuda/code/cluster.hpp"
#include "kernels/cuda/code/warp.hpp"

namespace peri::kernels::cuda {

namespace {
// The tile of a block, what a thread fetches of it into registers, and what becomes of a sum.
constexpr std::string_view kBegin = R"(
PERI_KERNEL __launch_bounds__(PERI_THREADS) peri_product(PERI_PARAMETERS) {
  enum { kLoadsA = PERI_TM * PERI_TK / PERI_THREADS, kLoadsB = PERI_TN * PERI_TK / PERI_THREADS };
  const PERI_INDEX tiles_m = (PERI_M + PERI_TM - 1) / PERI_TM, tiles_n = (PERI_N + PERI_TN - 1) / PERI_TN;
  PERI_INDEX rest = blockIdx.x;
  const PERI_INDEX part = rest % PERI_SPLIT; rest /= PERI_SPLIT;
  const PERI_INDEX steps = (PERI_K + PERI_TK * PERI_SPLIT - 1) / (PERI_TK * PERI_SPLIT), begin = part * steps * PERI_TK;
  const PERI_INDEX end = begin + steps * PERI_TK < PERI_K ? begin + steps * PERI_TK : PERI_K;
  const PERI_INDEX n0 = rest % tiles_n * PERI_TN; rest /= tiles_n;
  const PERI_INDEX m0 = rest % tiles_m * PERI_TM, batch = rest / tiles_m;
  const int t = threadIdx.x;
  const PERI_INDEX a_base = peri_a_base(batch, PERI_PASS);
  // Element j of this thread in a tile: which row or column, and how deep.
  const auto of = [t](const int j) { return t + PERI_THREADS * j; };
  const auto a_row = [of](const int j) { return PERI_A_ALONG_M ? of(j) % PERI_TM : of(j) / PERI_TK; };
  const auto a_depth = [of](const int j) { return PERI_A_ALONG_M ? of(j) / PERI_TM : of(j) % PERI_TK; };
  const auto b_column = [of](const int j) { return PERI_B_ALONG_K ? of(j) / PERI_TK : of(j) % PERI_TN; };
  const auto b_depth = [of](const int j) { return PERI_B_ALONG_K ? of(j) % PERI_TK : of(j) / PERI_TN; };
  peri_number next_a[PERI_A_WIDE ? 1 : kLoadsA], next_b[PERI_B_WIDE ? 1 : kLoadsB];
  const auto fetch_a = [&](const PERI_INDEX k0) {
#pragma unroll
    for (int j = 0; j < kLoadsA; ++j) {
      const PERI_INDEX m = m0 + a_row(j), k = k0 + a_depth(j);
      next_a[j] = m < PERI_M && k < end ? peri_a(a_base, m, k, PERI_PASS) : 0;
    }
  };
#if !PERI_B_ALONG_K && !PERI_B_WIDE
  const peri_column column = peri_column_of(batch, n0 + t % PERI_TN, PERI_PASS);
#endif
  const auto fetch_b = [&](const PERI_INDEX k0) {
#if PERI_B_RUNS
    const peri_run run = peri_run_of(column, k0 < end ? k0 : begin, PERI_PASS);
#pragma unroll
    for (int j = 0; j < kLoadsB; ++j) next_b[j] = run.there ? peri_b_of(run, b_depth(j), PERI_PASS) : 0;
#else
#pragma unroll
    for (int j = 0; j < kLoadsB; ++j) {
      const PERI_INDEX k = k0 + b_depth(j);
#if PERI_B_ALONG_K || PERI_B_WIDE
      const peri_column column = peri_column_of(batch, n0 + b_column(j), PERI_PASS);
#endif
      next_b[j] = k < end ? peri_b(column, k, PERI_PASS) : 0;
    }
#endif
  };
  // A sum of the tile, at its end.
  const auto finish = [&](const PERI_INDEX m, const PERI_INDEX n, const peri_sum_type sum) {
    if (m >= PERI_M || n >= PERI_N) return;
#if PERI_PARTED
    ((peri_sum_type*)PERI_PARTS)[((part * PERI_BATCH + batch) * PERI_M + m) * PERI_N + n] = sum;
#else
    peri_finish(peri_place(batch, m, n, PERI_PASS), peri_sum(sum, batch, m, n, PERI_PASS), PERI_PASS);
#endif
  };
)";

constexpr std::string_view kFloat = R"(
  enum { kRows = PERI_TM / 16, kColumns = PERI_TN / 16, kA = PERI_TM + 1, kB = PERI_TN + 1 };
  PERI_SHARED peri_number sa[PERI_TK * kA];
  PERI_SHARED peri_number sb[PERI_TK * kB];
  const int tx = t % 16, ty = t / 16;
  peri_sum_type sum[kRows][kColumns];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sum[r][c] = 0;
  fetch_a(begin), fetch_b(begin);
  for (PERI_INDEX k0 = begin; k0 < end; k0 += PERI_TK) {
#pragma unroll
    for (int j = 0; j < kLoadsA; ++j) sa[a_depth(j) * kA + a_row(j)] = next_a[j];
#pragma unroll
    for (int j = 0; j < kLoadsB; ++j) sb[b_depth(j) * kB + b_column(j)] = next_b[j];
    __syncthreads();
    fetch_a(k0 + PERI_TK), fetch_b(k0 + PERI_TK);  // under way while this tile is worked on; beyond the end nothing is read
#pragma unroll
    for (int k = 0; k < PERI_TK; ++k) {
      peri_number a[kRows], b[kColumns];
#pragma unroll
      for (int r = 0; r < kRows; ++r) a[r] = sa[k * kA + ty + 16 * r];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) b[c] = sb[k * kB + tx + 16 * c];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum[r][c] = peri_fma(a[r], b[c], sum[r][c]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) finish(m0 + ty + 16 * r, n0 + tx + 16 * c, sum[r][c]);
}
)";

// Products of float64: d[16,8] += a[16,4] b[4,8]. Lane l has of a rows l / 4 and l / 4 + 8 at depth l % 4, of b the
// same depth of column l / 4, of d columns 2 * (l % 4) and the next of both rows. Source: PTX ISA, matrix fragments for
// mma.m8n8k4 and mma.m16n8k4 with .f64.
constexpr std::string_view kMma = R"(#ifdef __CUDACC_RTC__
PERI_DEVICE void peri_mma_f64(double* d, const double* a, const double b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(b));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
                 : "d"(a[half]), "d"(b));
#endif
}
#endif
)";

// Tiles are in shared memory as float32, in rows of chunks of 16 bytes: a row is a line and its chunks go along the
// depth, or it is a step of the depth and its chunks go along the lines. The row turns the order of its chunks, so that
// a fragment's four depths of eight lines are in banks apart.
constexpr std::string_view kDouble = R"(
struct alignas(16) peri_two { double v[2]; };
template <int kAlongDepth, int kLines> PERI_DEVICE int peri_tile_at(const int line, const int depth) {
  enum { kChunks = (kAlongDepth ? PERI_TK : kLines) / 4 };
  const int row = kAlongDepth ? line : depth, along = kAlongDepth ? depth : line;
  const int turn = kAlongDepth ? row / (kChunks < 8 ? 8 / kChunks : 1) : row * 2;
  return (row * kChunks + (along / 4 ^ (turn & (kChunks < 8 ? kChunks - 1 : 7)))) * 4 + along % 4;
}
)";
constexpr std::string_view kDoubleSums = R"(
  enum { kWarpM = PERI_TM / PERI_DOWN, kWarpN = PERI_TN / PERI_ACROSS, kRows = kWarpM / 16, kColumns = kWarpN / 8 };
  enum { kStage = (PERI_TM + PERI_TN) * PERI_TK };
  PERI_DYNAMIC(memory);
  const unsigned base = peri_shared_at(memory);
  const int lane = t % 32, warp = t / 32, m1 = warp / PERI_ACROSS * kWarpM + lane / 4, n1 = warp % PERI_ACROSS * kWarpN + lane / 4;
  const auto a_at = [](const int line, const int depth) { return peri_tile_at<!PERI_A_ALONG_M, PERI_TM>(line, depth); };
  const auto b_at = [](const int line, const int depth) { return PERI_TM * PERI_TK + peri_tile_at<PERI_B_ALONG_K, PERI_TN>(line, depth); };
  // What is wide goes from memory to a stage at once, the rest through registers.
  const auto fetch = [&](const PERI_INDEX k0, const int stage) {
#if PERI_A_WIDE
#pragma unroll
    for (int j = 0; j < (PERI_TM * PERI_TK / 4 + PERI_THREADS - 1) / PERI_THREADS; ++j) {
      const int chunk = of(j), line = PERI_A_ALONG_M ? chunk % (PERI_TM / 4) * 4 : chunk / (PERI_TK / 4);
      const int depth = PERI_A_ALONG_M ? chunk / (PERI_TM / 4) : chunk % (PERI_TK / 4) * 4;
      if (PERI_TM * PERI_TK / 4 % PERI_THREADS != 0 && chunk >= PERI_TM * PERI_TK / 4) continue;
      const bool there = m0 + line < PERI_M && k0 + depth < end;
      peri_fetch(base + (unsigned)(stage * kStage + a_at(line, depth)) * 4, peri_a_from(a_base, there ? m0 + line : 0, there ? k0 + depth : 0, PERI_PASS), there);
    }
#else
    fetch_a(k0);
#endif
#if PERI_B_WIDE
#pragma unroll
    for (int j = 0; j < (PERI_TN * PERI_TK / 4 + PERI_THREADS - 1) / PERI_THREADS; ++j) {
      const int chunk = of(j), line = PERI_B_ALONG_K ? chunk / (PERI_TK / 4) : chunk % (PERI_TN / 4) * 4;
      const int depth = PERI_B_ALONG_K ? chunk % (PERI_TK / 4) * 4 : chunk / (PERI_TN / 4);
      if (PERI_TN * PERI_TK / 4 % PERI_THREADS != 0 && chunk >= PERI_TN * PERI_TK / 4) continue;
      const bool there = n0 + line < PERI_N && k0 + depth < end;
      peri_fetch(base + (unsigned)(stage * kStage + b_at(line, depth)) * 4, peri_b_from(batch, there ? k0 + depth : 0, there ? n0 + line : 0, PERI_PASS), there);
    }
#else
    fetch_b(k0);
#endif
  };
  const auto put = [&](const int stage) {
#if !PERI_A_WIDE
#pragma unroll
    for (int j = 0; j < kLoadsA; ++j) memory[stage * kStage + a_at(a_row(j), a_depth(j))] = next_a[j];
#endif
#if !PERI_B_WIDE
#pragma unroll
    for (int j = 0; j < kLoadsB; ++j) memory[stage * kStage + b_at(b_column(j), b_depth(j))] = next_b[j];
#endif
  };
  double sum[kRows][kColumns][4];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[r][c][e] = 0.0;
  // Beyond the end nothing is read.
#pragma unroll
  for (int s = 0; s < PERI_STAGES - 1; ++s) fetch(begin + s * PERI_TK, s), put(s), peri_fetched();
  int now = 0, next = PERI_STAGES - 1;
  for (PERI_INDEX k0 = begin; k0 < end; k0 += PERI_TK) {
    peri_wait<PERI_STAGES - 2>();
    __syncthreads();  // nobody reads stage `next` any more
    fetch(k0 + (PERI_STAGES - 1) * PERI_TK, next);
    peri_fetched();
#pragma unroll
    for (int k = 0; k < PERI_TK; k += 4) {
      double b[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) b[c] = (double)memory[now * kStage + b_at(n1 + c * 8, k + lane % 4)];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        double a[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) a[e] = (double)memory[now * kStage + a_at(m1 + r * 16 + e * 8, k + lane % 4)];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) peri_mma_f64(sum[r][c], a, b[c]);
      }
    }
    put(next);
    now = now == PERI_STAGES - 1 ? 0 : now + 1, next = next == PERI_STAGES - 1 ? 0 : next + 1;
  }
  peri_wait<0>();
#if PERI_CLUSTER
  // The blocks of a cluster hold the parts of one tile. Each of them ends a share of it: what all of them have of an
  // element, added in the order of the parts.
  enum { kTileRow = PERI_TN + 8, kOwn = PERI_TM * PERI_TN / PERI_SPLIT };
  __syncthreads();  // no stage is read any more
  double* const tile = (double*)memory;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int e = 0; e < 4; e += 2)
        *(peri_two*)(tile + (m1 + r * 16 + e * 4) * kTileRow + n1 - lane / 4 + c * 8 + lane % 4 * 2) = peri_two{{sum[r][c][e], sum[r][c][e + 1]}};
  peri_cluster_arrive();
  peri_cluster_wait();
#pragma unroll 2
  for (int i = (int)part * kOwn + t; i < ((int)part + 1) * kOwn; i += PERI_THREADS) {
    const int row = i / PERI_TN, at = i % PERI_TN;
    double of[PERI_SPLIT], all = 0.0;
#pragma unroll
    for (int p = 0; p < PERI_SPLIT; ++p) of[p] = peri_peer_f64(base + (unsigned)(row * kTileRow + at) * 8, p);
#pragma unroll
    for (int p = 0; p < PERI_SPLIT; ++p) all += of[p];
    finish(m0 + row, n0 + at, all);
  }
  peri_cluster_arrive();
  peri_cluster_wait();  // a block's memory stays until all have read it
#else
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        finish(m0 + m1 + r * 16 + e / 2 * 8, n0 + n1 - lane / 4 + c * 8 + lane % 4 * 2 + e % 2, sum[r][c][e]);
#endif
}
)";

constexpr std::string_view kJoin = R"(
PERI_KERNEL __launch_bounds__(256) peri_join_parts(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, count = PERI_BATCH * PERI_M * PERI_N;
  const peri_sum_type* const parts = (const peri_sum_type*)PERI_PARTS;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < count; i += step) {
    peri_sum_type sum = 0;
    for (int part = 0; part < PERI_SPLIT; ++part) sum += parts[part * count + i];
    const PERI_INDEX n = i % PERI_N, m = i / PERI_N % PERI_M, batch = i / PERI_N / PERI_M;
    peri_finish(peri_place(batch, m, n, PERI_PASS), peri_sum(sum, batch, m, n, PERI_PASS), PERI_PASS);
  }
}
)";

}  // namespace

std::string_view product_plain_text() {
  static const std::string kText = std::string(kBegin) + std::string(kFloat);
  return kText;
}

std::string_view product_f64_text() {
  static const std::string kText = std::string(warp_text()) + "#if PERI_CLUSTER\n" + std::string(cluster_text()) +
                                   "#endif\n" + std::string(kMma) + std::string(kDouble) + std::string(kBegin) +
                                   std::string(kDoubleSums);
  return kText;
}

std::string_view product_join_text() { return kJoin; }

}  // namespace peri::kernels::cuda
