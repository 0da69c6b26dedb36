// Kernel cuda_gemv: matrix products of few rows (gemm, matmul), as in the last layer of a network or a decoder's step,
// with the element-wise chain after them, on a GPU: the time is that of reading the matrix once. Lanes of a warp go
// along the depth, 16 bytes of each column at a time; constant matrices with another order are turned when they are
// uploaded. Sums as in sums.hpp.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/gemm_sum.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;
constexpr int64_t kMaxRows = 8;                              // where it is offered; others take turns
constexpr int kWarps = 8;                                    // of a block
constexpr int kEach[] = {1, 2, 4}, kShare[] = {1, 2, 4, 8};  // columns of a warp; warps that share them

constexpr std::string_view kKernel = R"(
PERI_DEVICE void peri_load_4_f32(const float* p, float* v) {
  const peri_16 a = *(const peri_16*)p;
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = peri_bits(a.w[k]);
}
// Elements [k, k + PERI_WIDE) of a line of `count` along the depth; zeros beyond it.
template <bool kTogether, class T>
PERI_DEVICE void peri_part(float* v, const T* const line, const PERI_INDEX k, const PERI_INDEX count) {
  if (kTogether) {
    PERI_LOAD_WIDE(line + k, v);
  } else {
#pragma unroll
    for (int j = 0; j < PERI_WIDE; ++j) v[j] = k + j < count ? PERI_LOADED(line[k + j]) : 0.0f;
  }
}
template <bool kTogether> PERI_DEVICE void peri_gemv_of(PERI_PARAMETERS) {
  PERI_SHARED peri_sum_type parts[8][PERI_EACH * PERI_ROWS];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const PERI_INDEX groups = (PERI_N + PERI_EACH * (8 / PERI_SHARE) - 1) / (PERI_EACH * (8 / PERI_SHARE));
  const PERI_INDEX m0 = blockIdx.x / groups * PERI_ROWS, first = blockIdx.x % groups * (PERI_EACH * (8 / PERI_SHARE));
  const PERI_INDEX n0 = first + warp / PERI_SHARE * PERI_EACH;
  peri_sum_type sum[PERI_EACH][PERI_ROWS];
#pragma unroll
  for (int e = 0; e < PERI_EACH; ++e)
#pragma unroll
    for (int r = 0; r < PERI_ROWS; ++r) sum[e][r] = 0;
#pragma unroll PERI_UNROLL
  for (PERI_INDEX k = (warp % PERI_SHARE * 32 + lane) * PERI_WIDE; k < PERI_K; k += PERI_SHARE * 32 * PERI_WIDE) {
    float b[PERI_EACH][PERI_WIDE];
#pragma unroll
    for (int e = 0; e < PERI_EACH; ++e)  // a column beyond the last is the last again
      peri_part<kTogether>(b[e], PERI_B + (n0 + e < PERI_N ? n0 + e : PERI_N - 1) * PERI_K, k, PERI_K);
#pragma unroll
    for (int r = 0; r < PERI_ROWS; ++r) {
      float a[PERI_WIDE];
      peri_part<kTogether>(a, PERI_A + (m0 + r < PERI_M ? m0 + r : PERI_M - 1) * PERI_K, k, PERI_K);
#pragma unroll
      for (int e = 0; e < PERI_EACH; ++e)
#pragma unroll
        for (int j = 0; j < PERI_WIDE; ++j) sum[e][r] = peri_fma(b[e][j], a[j], sum[e][r]);
    }
  }
#pragma unroll
  for (int e = 0; e < PERI_EACH; ++e)
#pragma unroll
    for (int r = 0; r < PERI_ROWS; ++r) {
#pragma unroll
      for (int d = 16; d > 0; d /= 2) sum[e][r] += peri_other_lane(sum[e][r], d);
      if (lane == 0) parts[warp][e * PERI_ROWS + r] = sum[e][r];
    }
  __syncthreads();
  if (t >= 8 / PERI_SHARE * PERI_EACH * PERI_ROWS) return;
  const int own = t % (PERI_EACH * PERI_ROWS), group = t / (PERI_EACH * PERI_ROWS);
  const PERI_INDEX m = m0 + own % PERI_ROWS, n = first + group * PERI_EACH + own / PERI_ROWS;
  if (m >= PERI_M || n >= PERI_N) return;
  peri_sum_type all = 0;
#pragma unroll
  for (int p = 0; p < PERI_SHARE; ++p) all += parts[group * PERI_SHARE + p][own];
  peri_finish(m * PERI_N + n, peri_sum(all, 0, m, n, PERI_PASS), PERI_PASS);
}
PERI_KERNEL __launch_bounds__(256) peri_gemv(PERI_PARAMETERS) {
  if (PERI_TOGETHER)
    peri_gemv_of<true>(PERI_PASS);
  else
    peri_gemv_of<false>(PERI_PASS);
}
)";

struct Gemv {
  int64_t m = 0, n = 0, k = 0;
  size_t matrix = 0;    // the input of the region
  bool turned = false;  // it is packed with the depth last
  DType dtype = DType::kF32;
  int wide() const { return dtype == DType::kF32 ? 4 : 8; }  // elements of 16 bytes
};

Result<Gemv> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Gemv out;
  bool depth_last = false;
  if (n.op == "gemm") {
    const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
    if (n.i("transA") != 0) return refused("takes no transposed left side");
    out.m = y[0];
    out.n = y[1];
    out.k = x[1];
    depth_last = n.i("transB") != 0;
  } else if (n.op == "matmul") {
    PERI_ASSIGN(const cuda::MatmulDims d, cuda::matmul_dims(n));
    if (d.batches != 1) return refused("takes one matrix, not a batch");
    out.m = d.m;
    out.n = d.n;
    out.k = d.k;
  } else {
    return refused("not a matrix product");
  }
  out.dtype = n.in(0)->type.dtype;
  if (out.dtype != DType::kF32 && out.dtype != DType::kF16 && out.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(out.dtype)));
  if (n.in(1)->type.dtype != out.dtype) return refused("operands of several types");
  const int a = input_index(*p.graph, n.in(0)), b = input_index(*p.graph, n.in(1));
  if (a < 0 || b < 0) return refused("an operand is not an argument");
  out.matrix = static_cast<size_t>(b);
  out.turned = !depth_last && out.n != 1 && out.k != 1;
  if (out.turned && !p.constant[out.matrix]) return refused("its matrix is not constant, and the depth is not last");
  return out;
}

// [k, n] as [n, k].
Result<Tensor> turned(const Tensor& b, int64_t k, int64_t n) {
  PERI_ASSIGN(Tensor out, Tensor::zeros(b.dtype(), {n, k}));
  const auto turn = [&]<class T>(const T* from, T* to) {
    constexpr int64_t kTile = 32;  // elements of a cache line, and more
    for (int64_t n0 = 0; n0 < n; n0 += kTile)
      for (int64_t row = 0; row < k; ++row)
        for (int64_t column = n0; column < std::min(n, n0 + kTile); ++column)
          to[column * k + row] = from[row * n + column];
  };
  std::byte* const to = const_cast<std::byte*>(out.bytes().data());
  if (dtype_bits(b.dtype()) == 16)
    turn(reinterpret_cast<const uint16_t*>(b.bytes().data()), reinterpret_cast<uint16_t*>(to));
  else
    turn(reinterpret_cast<const uint32_t*>(b.bytes().data()), reinterpret_cast<uint32_t*>(to));
  return out;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p, const Gemv& g, int64_t each, int64_t share,
                                       const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  PERI_TRY(cuda::check_row_major(*p.graph));
  Signature s;
  std::string body = cuda::sums_text(g.dtype, gpu) + cuda::block_text(kWarps * 32);
  const auto define = [&](const std::string& name, const std::string& value) {
    body += "#define PERI_" + name + " " + value + "\n";
  };
  PERI_ASSIGN(const std::string a, s.value(p, *n.in(0)));
  std::string b;
  if (g.turned) {
    PERI_ASSIGN(const std::string type, cuda::stored_type(g.dtype));
    b = "((const " + type + "*)" + s.packed(0) + ")";
  } else {
    PERI_ASSIGN(b, s.value(p, *n.in(1)));
  }
  define("A", a);
  define("B", b);
  define("TOGETHER", "(PERI_K % PERI_WIDE == 0 && " + s.aligned() + ")");
  define("M", s.size(g.m));
  define("N", s.size(g.n));
  define("K", s.size(g.k));
  const int64_t rows = std::clamp<int64_t>(g.m, 1, kMaxRows);
  define("ROWS", std::to_string(rows));
  define("EACH", std::to_string(each));
  define("SHARE", std::to_string(share));
  define("WIDE", std::to_string(g.wide()));
  define("UNROLL", std::to_string(std::max<int64_t>(1, 4 / (each * std::max<int64_t>(1, rows / 2)))));
  define("LOADED(E)", cuda::loaded(g.dtype, "E"));
  define("LOAD_WIDE(FROM, TO)",
         g.dtype == DType::kF32 ? "peri_load_4_f32(FROM, TO)" : cuda::load_wide(8, g.dtype, "FROM", "TO"));
  PERI_ASSIGN(const std::string sum, cuda::gemm_sum_text(p, n, &s));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  const int64_t columns = each * (kWarps / share), blocks = (g.m + rows - 1) / rows * ((g.n + columns - 1) / columns);
  if (blocks > cuda::kMaxBlocks) return refused("more columns than a grid has blocks");
  if (blocks == 0) return std::vector<KernelLaunch>{};
  return std::vector<KernelLaunch>{s.launch(
      "peri_gemv", s.text(cuda::most_elements(p), body + sum + finish + std::string(kKernel)), blocks, kWarps * 32)};
}

// An estimate (see launch.hpp): lanes wait for memory once in so many turns, all of them for the matrix.
double guess_ms(const Gemv& g, int64_t each, int64_t share, const cuda::GpuLimits& gpu) {
  constexpr double kLaunchNs = 2000, kWaitNs = 600, kBytesPerNs = 3000, kLoadNs = 0.25;
  const double turns = static_cast<double>(g.k) / static_cast<double>(32 * g.wide() * share);
  const double waits = std::max(1.0, turns / std::max(1.0, 4.0 / static_cast<double>(each))) * kWaitNs;
  const double columns = static_cast<double>(g.n), depth = static_cast<double>(g.k);
  const double loads = columns * depth / (32 * g.wide()) * (1 + static_cast<double>(g.m) / static_cast<double>(each));
  const double bytes = columns * depth * static_cast<double>(dtype_bits(g.dtype)) / 8;
  return (kLaunchNs + std::max({waits, bytes / kBytesPerNs, loads * kLoadNs * 32 / gpu.multiprocessors})) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Gemv g, read(p));
  if (g.m > kMaxRows) return refused("more than %lld rows", static_cast<long long>(kMaxRows));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  PERI_TRY(plan(p, g, kEach[0], kShare[0], gpu));
  std::vector<Offer> out;
  for (const int each : kEach)
    for (const int share : kShare) {
      out.push_back(cuda::plain_offer(p)[0]);
      out.back().config = format("each=%d share=%d", each, share);
      out.back().guess_ms = guess_ms(g, each, share, gpu);
    }
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

// More rows than it is offered for go in turns of eight, each of which reads the matrix.
Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const Gemv g, read(p));
  PERI_ASSIGN(const int64_t each, config_int(config, "each", 1, 4, 1));
  PERI_ASSIGN(const int64_t share, config_int(config, "share", 1, kWarps, 1));
  const auto among = [](const auto& all, int64_t v) {
    return std::find(std::begin(all), std::end(all), v) != std::end(all);
  };
  if (!among(kEach, each) || !among(kShare, share)) return invalid("no such share of the columns");
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, g, each, share, cuda::limits_of(*context.target)));
  std::vector<cuda::PackedWeight> packed;
  if (g.turned) packed.push_back({g.matrix, [g](const Tensor& b) { return turned(b, g.k, g.n); }});
  return cuda::LaunchInstance::make(std::move(launches), 0, std::move(packed));
}
}  // namespace

extern const Entry cuda_gemv_entry;
const Entry cuda_gemv_entry{{
    .name = "cuda_gemv",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "matrix products of at most eight rows on a GPU with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[1,520]; const w: f32[75,520] = seeded(0.1, 1); const c: f32[75] = seeded(0.5, 2); "
         "y = gemm(x, w, c) {transB=1, alpha=0.5}; z = relu(y); output z }",
         "graph { input x: f16[3,2,264]; const w: f16[264,41] = seeded(0.1, 1); y = matmul(x, w); output y }",
         "graph { input x: bf16[8,77]; const w: bf16[77,24] = seeded(0.2, 1); y = matmul(x, w); z = sigmoid(y); "
         "output z }",
         "graph { input x: f32[2,30]; input w: f32[9,30]; y = gemm(x, w) {transB=1}; output y }"},
}};

}  // namespace peri::kernels
