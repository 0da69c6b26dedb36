// The source text: 256 threads, each with every 16th row and column of a tile, operands staged in shared memory.
#include "kernels/cuda/code/product.hpp"

#include <algorithm>
#include <cmath>

namespace peri::kernels::cuda {

namespace {
struct Tile {
  int m, n;
};
constexpr Tile kTiles[] = {{128, 128}, {64, 64}, {32, 32}, {64, 16}, {16, 64}, {16, 16}};
constexpr int kSplits[] = {1, 2, 4, 8};  // parts of the depth, each by blocks of its own
constexpr int kDepth = 16;               // of a tile
constexpr double kLaunchNs = 2500;       // a guess, as below

int64_t blocks_of(Tile t, int64_t batch, int64_t m, int64_t n) {
  return batch * ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
}
// An estimate in ns, not a measurement (see launch.hpp): a step of 16 along the depth waits for memory, or for the
// other blocks of its multiprocessor; parts are reduced by a separate launch.
double guess(Tile t, int split, const Product& p, const GpuLimits& gpu) {
  constexpr double kWait = 700, kLaunch = 2500, kBytesPerNs = 2000;
  const double work = 0.18 * t.m * t.n + 3.2 * (t.m + t.n);
  const double steps = std::ceil(static_cast<double>(p.k) / kDepth / split);
  const double blocks = static_cast<double>(blocks_of(t, p.batch, p.m, p.n)) * split;
  const double join = kLaunch + 8.0 * split * static_cast<double>(p.batch * p.m * p.n) / kBytesPerNs;
  return std::max(steps * (kWait + work), blocks * steps * work / gpu.multiprocessors) + (split > 1 ? join : 0);
}

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(256) peri_product(PERI_PARAMETERS) {
  enum { kRows = PERI_TM / 16, kColumns = PERI_TN / 16, kA = PERI_TM + 1, kB = PERI_TN + 1 };
  enum { kLoadsA = PERI_TM * PERI_TK / 256, kLoadsB = PERI_TN * PERI_TK / 256 };
  PERI_SHARED float sa[PERI_TK * kA];
  PERI_SHARED float sb[PERI_TK * kB];
  const PERI_INDEX tiles_m = (PERI_M + PERI_TM - 1) / PERI_TM, tiles_n = (PERI_N + PERI_TN - 1) / PERI_TN;
  PERI_INDEX rest = blockIdx.x;
  const PERI_INDEX part = rest % PERI_SPLIT; rest /= PERI_SPLIT;
  const PERI_INDEX steps = (PERI_K + PERI_TK * PERI_SPLIT - 1) / (PERI_TK * PERI_SPLIT), begin = part * steps * PERI_TK;
  const PERI_INDEX end = begin + steps * PERI_TK < PERI_K ? begin + steps * PERI_TK : PERI_K;
  const PERI_INDEX n0 = rest % tiles_n * PERI_TN; rest /= tiles_n;
  const PERI_INDEX m0 = rest % tiles_m * PERI_TM, batch = rest / tiles_m;
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const PERI_INDEX a_base = peri_a_base(batch, PERI_PASS);
#if !PERI_B_ALONG_K
  const peri_column column = peri_column_of(batch, n0 + t % PERI_TN, PERI_PASS);
#endif
  float sum[kRows][kColumns], next_a[kLoadsA], next_b[kLoadsB];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sum[r][c] = 0.0f;
  // Element j of this thread in a tile: which row or column, and how deep.
  const auto a_row = [t](const int j) { return PERI_A_ALONG_M ? (t + 256 * j) % PERI_TM : (t + 256 * j) / PERI_TK; };
  const auto a_depth = [t](const int j) { return PERI_A_ALONG_M ? (t + 256 * j) / PERI_TM : (t + 256 * j) % PERI_TK; };
  const auto b_column = [t](const int j) { return PERI_B_ALONG_K ? (t + 256 * j) / PERI_TK : (t + 256 * j) % PERI_TN; };
  const auto b_depth = [t](const int j) { return PERI_B_ALONG_K ? (t + 256 * j) % PERI_TK : (t + 256 * j) / PERI_TN; };
  const auto fetch = [&](const PERI_INDEX k0) {
#pragma unroll
    for (int j = 0; j < kLoadsA; ++j) {
      const PERI_INDEX m = m0 + a_row(j), k = k0 + a_depth(j);
      next_a[j] = m < PERI_M && k < end ? peri_a(a_base, m, k, PERI_PASS) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kLoadsB; ++j) {
      const PERI_INDEX k = k0 + b_depth(j);
#if PERI_B_ALONG_K
      const peri_column column = peri_column_of(batch, n0 + b_column(j), PERI_PASS);
#endif
      next_b[j] = k < end ? peri_b(column, k, PERI_PASS) : 0.0f;
    }
  };
  fetch(begin);
  for (PERI_INDEX k0 = begin; k0 < end; k0 += PERI_TK) {
#pragma unroll
    for (int j = 0; j < kLoadsA; ++j) sa[a_depth(j) * kA + a_row(j)] = next_a[j];
#pragma unroll
    for (int j = 0; j < kLoadsB; ++j) sb[b_depth(j) * kB + b_column(j)] = next_b[j];
    __syncthreads();
    fetch(k0 + PERI_TK);  // under way while this tile is worked on; beyond the end nothing is read
#pragma unroll
    for (int k = 0; k < PERI_TK; ++k) {
      float a[kRows], b[kColumns];
#pragma unroll
      for (int r = 0; r < kRows; ++r) a[r] = sa[k * kA + ty + 16 * r];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) b[c] = sb[k * kB + tx + 16 * c];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum[r][c] = fmaf(a[r], b[c], sum[r][c]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const PERI_INDEX m = m0 + ty + 16 * r, n = n0 + tx + 16 * c;
      if (m >= PERI_M || n >= PERI_N) continue;
#if PERI_SPLIT > 1
      PERI_PARTS[((part * PERI_BATCH + batch) * PERI_M + m) * PERI_N + n] = sum[r][c];
#else
      peri_finish(peri_place(batch, m, n, PERI_PASS), peri_sum(sum[r][c], batch, m, n, PERI_PASS), PERI_PASS);
#endif
    }
}
)";
// The parts of each sum, in order.
constexpr std::string_view kJoin = R"(
PERI_KERNEL __launch_bounds__(256) peri_join_parts(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, count = PERI_BATCH * PERI_M * PERI_N;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < count; i += step) {
    float sum = 0.0f;
    for (int part = 0; part < PERI_SPLIT; ++part) sum += PERI_PARTS[part * count + i];
    const PERI_INDEX n = i % PERI_N, m = i / PERI_N % PERI_M, batch = i / PERI_N / PERI_M;
    peri_finish(peri_place(batch, m, n, PERI_PASS), peri_sum(sum, batch, m, n, PERI_PASS), PERI_PASS);
  }
}
)";
}  // namespace

std::vector<ProductConfig> product_configs(const Product& p, const GpuLimits& gpu) {
  std::vector<std::pair<double, std::string>> all;
  for (const Tile t : kTiles)
    for (const int split : kSplits) {
      if (p.few && (t.m != t.n || t.m > 64 || split > (t.m == 32 ? 4 : 1) || split == 2)) continue;
      all.emplace_back(guess(t, split, p, gpu), format("tm=%d tn=%d split=%d", t.m, t.n, split));
    }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ProductConfig> out;
  for (auto& [ns, config] : all) out.push_back({std::move(config), (kLaunchNs + ns) / 1e6});
  return out;
}

Result<std::unique_ptr<Instance>> product_instance(const Product& p, std::string_view config, int64_t most_elements,
                                                   Signature* signature) {
  PERI_ASSIGN(const int64_t tm, config_int(config, "tm", 16, 128, 32));
  PERI_ASSIGN(const int64_t tn, config_int(config, "tn", 16, 128, 32));
  PERI_ASSIGN(const int64_t split, config_int(config, "split", 1, 8, 1));
  const auto known = [&](Tile t) { return t.m == tm && t.n == tn; };
  if (std::none_of(std::begin(kTiles), std::end(kTiles), known)) return invalid("no tile of this size");
  const Tile tile = {static_cast<int>(tm), static_cast<int>(tn)};
  const int64_t blocks = blocks_of(tile, p.batch, p.m, p.n) * split, count = p.batch * p.m * p.n;
  if (blocks > kMaxBlocks) return refused("more tiles than a grid has blocks");
  std::string body = format("#define PERI_TM %d\n#define PERI_TN %d\n#define PERI_TK %d\n", tile.m, tile.n, kDepth);
  body += format("#define PERI_SPLIT %d\n", static_cast<int>(split));
  body += format("#define PERI_A_ALONG_M %d\n#define PERI_B_ALONG_K %d\n", p.a_along_m, p.b_along_k);
  body += "#define PERI_M " + signature->size(p.m) + "\n#define PERI_N " + signature->size(p.n) + "\n#define PERI_K " +
          signature->size(p.k) + "\n";
  if (split > 1)
    body += "#define PERI_BATCH " + signature->size(p.batch) + "\n#define PERI_PARTS " + signature->workspace() + "\n";
  body += p.functions + std::string(kKernel) + std::string(split > 1 ? kJoin : "");
  std::vector<KernelLaunch> out;
  if (blocks > 0) {
    const std::string text = signature->text(std::max(most_elements, split * count), body);
    out.push_back(signature->launch("peri_product", text, blocks, 256));
    if (split > 1) out.push_back(signature->launch("peri_join_parts", text, blocks_for(count, 256), 256));
  }
  return LaunchInstance::make(std::move(out), split > 1 ? static_cast<size_t>(split * count) * sizeof(float) : 0);
}

}  // namespace peri::kernels::cuda
