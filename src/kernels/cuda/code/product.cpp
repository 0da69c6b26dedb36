// The text: 256 threads, each with every 16th row and column of a tile, operands staged in shared memory.
#include "kernels/cuda/code/product.hpp"

#include <algorithm>

namespace peri::kernels::cuda {

namespace {
struct Tile {
  int m, n;
};
constexpr Tile kTiles[] = {{64, 64}, {32, 32}, {64, 16}, {16, 64}, {16, 16}};
constexpr int64_t kEnoughBlocks = 128;  // about one for each multiprocessor of a large GPU

int64_t blocks_of(Tile t, int64_t batch, int64_t m, int64_t n) {
  return batch * ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
}
// What a tile costs: elements worked on, more where most of the chip would have none.
double guess(Tile t, int64_t batch, int64_t m, int64_t n) {
  const auto blocks = static_cast<double>(blocks_of(t, batch, m, n));
  const double waves = std::max(1.0, blocks / static_cast<double>(kEnoughBlocks));
  return waves * (t.m * t.n + 8.0 * (t.m + t.n));
}

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(256) peri_product(PERI_PARAMETERS) {
  enum { kRows = PERI_TM / 16, kColumns = PERI_TN / 16, kA = PERI_TM + 1, kB = PERI_TN + 1 };
  PERI_SHARED float sa[PERI_TK * kA];
  PERI_SHARED float sb[PERI_TK * kB];
  const PERI_INDEX tiles_m = (PERI_M + PERI_TM - 1) / PERI_TM, tiles_n = (PERI_N + PERI_TN - 1) / PERI_TN;
  PERI_INDEX rest = blockIdx.x;
  const PERI_INDEX n0 = rest % tiles_n * PERI_TN; rest /= tiles_n;
  const PERI_INDEX m0 = rest % tiles_m * PERI_TM, batch = rest / tiles_m;
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const PERI_INDEX a_base = peri_a_base(batch, PERI_PASS);
#if !PERI_B_ALONG_K
  const int bn = t % PERI_TN;
  const peri_column column = peri_column_of(batch, n0 + bn, PERI_PASS);
#endif
  float sum[kRows][kColumns];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sum[r][c] = 0.0f;
  for (PERI_INDEX k0 = 0; k0 < PERI_K; k0 += PERI_TK) {
#if PERI_A_ALONG_M
    for (int e = t; e < PERI_TM * PERI_TK; e += 256) {
      const int am = e % PERI_TM, ak = e / PERI_TM;
#else
    for (int e = t; e < PERI_TM * PERI_TK; e += 256) {
      const int am = e / PERI_TK, ak = e % PERI_TK;
#endif
      const bool inside = m0 + am < PERI_M && k0 + ak < PERI_K;
      sa[ak * kA + am] = inside ? peri_a(a_base, m0 + am, k0 + ak, PERI_PASS) : 0.0f;
    }
#if PERI_B_ALONG_K
    for (int e = t; e < PERI_TN * PERI_TK; e += 256) {
      const int bn = e / PERI_TK, bk = e % PERI_TK;
      const peri_column column = peri_column_of(batch, n0 + bn, PERI_PASS);
      sb[bk * kB + bn] = k0 + bk < PERI_K ? peri_b(column, k0 + bk, PERI_PASS) : 0.0f;
    }
#else
    for (int bk = t / PERI_TN; bk < PERI_TK; bk += 256 / PERI_TN)
      sb[bk * kB + bn] = k0 + bk < PERI_K ? peri_b(column, k0 + bk, PERI_PASS) : 0.0f;
#endif
    __syncthreads();
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
      if (m < PERI_M && n < PERI_N)
        peri_finish(peri_place(batch, m, n, PERI_PASS), peri_sum(sum[r][c], batch, m, n, PERI_PASS), PERI_PASS);
    }
}
)";
}  // namespace

std::vector<std::string> product_configs(int64_t batch, int64_t m, int64_t n) {
  std::vector<Tile> tiles(std::begin(kTiles), std::end(kTiles));
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](Tile a, Tile b) { return guess(a, batch, m, n) < guess(b, batch, m, n); });
  std::vector<std::string> out;
  for (const Tile t : tiles) out.push_back(format("tm=%d tn=%d", t.m, t.n));
  return out;
}

Result<std::vector<KernelLaunch>> product_launches(const Product& p, std::string_view config, int64_t most_elements,
                                                   Signature* signature) {
  PERI_ASSIGN(const int64_t tm, config_int(config, "tm", 16, 64, 32));
  PERI_ASSIGN(const int64_t tn, config_int(config, "tn", 16, 64, 32));
  const auto known = [&](Tile t) { return t.m == tm && t.n == tn; };
  if (std::none_of(std::begin(kTiles), std::end(kTiles), known)) return invalid("no tile of this size");
  const Tile tile = {static_cast<int>(tm), static_cast<int>(tn)};
  const int64_t blocks = blocks_of(tile, p.batch, p.m, p.n);
  if (blocks > kMostBlocks) return refused("more tiles than a grid has blocks");
  std::string body = format("#define PERI_TM %d\n#define PERI_TN %d\n#define PERI_TK 16\n", tile.m, tile.n);
  body += format("#define PERI_A_ALONG_M %d\n#define PERI_B_ALONG_K %d\n", p.a_along_m, p.b_along_k);
  body += "#define PERI_M " + signature->size(p.m) + "\n#define PERI_N " + signature->size(p.n) + "\n#define PERI_K " +
          signature->size(p.k) + "\n" + p.functions + std::string(kKernel);
  std::vector<KernelLaunch> out;
  if (blocks > 0) out.push_back(signature->launch("peri_product", signature->text(most_elements, body), blocks, 256));
  return out;
}

}  // namespace peri::kernels::cuda
