// Kernel cuda_attention_mma: fused attention of float16 or bfloat16 on the tensor cores of a GPU from sm_80 on: a warp
// has 16 queries, keys pass by in blocks, the softmax follows in float32 as they come; no scores in memory.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/code/attention_shape.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/warp.hpp"

namespace peri::kernels {
extern const Entry cuda_attention_mma_entry;

namespace {
using cuda::KernelLaunch;
using cuda::Signature;
using View = HeadView;
constexpr int64_t kBlock = 64;  // keys
constexpr int64_t kStages = 3;  // blocks in shared memory
constexpr int64_t kMostDepth = 128;
constexpr int64_t kQueries[] = {16, 32, 64, 128};  // of a block of threads

constexpr std::string_view kLoads = R"(
enum { kThreads = PERI_WARPS * 32, kQueries = PERI_WARPS * 16, kRowQ = PERI_ROW_Q / 8, kRowV = PERI_ROW_V / 8 };
enum { kKeys = 64, kBytesQ = kQueries * PERI_ROW_Q * 2, kBytesK = kKeys * PERI_ROW_Q * 2, kBytesV = kKeys * PERI_ROW_V * 2 };
enum { kDepthSteps = (PERI_DEPTH + 15) / 16, kValueSteps = (PERI_VALUES + 15) / 16, kStrip = kValueSteps * 16 + 4 };
// Rows of queries, keys or values: 16-byte chunks, zeros outside.
template <int kRows, int kChunks, int kSize>
PERI_DEVICE void peri_rows(const unsigned at, const unsigned short* from, const PERI_INDEX step, const PERI_INDEX first,
                           const PERI_INDEX count) {
#pragma unroll
  for (int k = 0; k < (kRows * kChunks + kThreads - 1) / kThreads; ++k) {
    const int c = threadIdx.x + k * kThreads, row = c / kChunks, chunk = c % kChunks;
    if (kRows * kChunks % kThreads != 0 && row >= kRows) break;
    const bool there = first + row < count && chunk * 8 < kSize;
    peri_fetch(at + peri_chunk(row, chunk, kChunks), from + (there ? (first + row) * step + chunk * 8 : 0), there);
  }
}
)";

constexpr std::string_view kKernel = R"(
// What is made of the scores of a block of keys from `key` on; outside and hidden ones are -inf. Queries outside are
// those of the last one.
PERI_DEVICE void peri_scores(float (*s)[4], const PERI_INDEX b, const PERI_INDEX h, const PERI_INDEX query,
                             const PERI_INDEX key, PERI_PARAMETERS) {
  const int lane = threadIdx.x % 32;
  const bool whole = key + kKeys <= PERI_KEYS;
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const PERI_INDEX i = peri_least(query + lane / 4 + e / 2 * 8, PERI_QUERIES - 1), j = key + n * 8 + lane % 4 * 2 + e % 2;
      float score = s[n][e] * PERI_SCALE;
      if (whole || j < PERI_KEYS) {
)";
constexpr std::string_view kRest = R"(
      } else {
        score = -peri_inf();
      }
      s[n][e] = score;
    }
}
// Joins a block's scores to a row's maximum and sum; s becomes exp(s - maximum), the sums so far shrink by what is given.
PERI_DEVICE void peri_join_rows(float (*s)[4], float* high, float* sum, float* shrink) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = high[r];
#pragma unroll
    for (int n = 0; n < 8; ++n) most = peri_max(peri_max(most, s[n][2 * r]), s[n][2 * r + 1]);
    most = peri_max(most, peri_lane_xor(most, 1));
    most = peri_max(most, peri_lane_xor(most, 2));
    const float from = most == -peri_inf() ? 0.0f : most;  // nothing seen yet: all are 2^-inf
    shrink[r] = peri_exp2((high[r] - from) * 1.44269504f);  // scaled first, a mask of -3.4e38 would be none left
    high[r] = most;
    float part = 0.0f;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        s[n][e] = peri_exp2((s[n][e] - from) * 1.44269504f);
        part += s[n][e];
      }
    part += peri_lane_xor(part, 1);
    part += peri_lane_xor(part, 2);
    sum[r] = sum[r] * shrink[r] + part;
  }
}
PERI_KERNEL __launch_bounds__(kThreads, 1) peri_attention(PERI_PARAMETERS) {
  PERI_DYNAMIC(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const PERI_INDEX tiles = (PERI_QUERIES + kQueries - 1) / kQueries;
  PERI_INDEX rest = blockIdx.x;
  const PERI_INDEX first = rest % tiles * kQueries; rest /= tiles;
  const PERI_INDEX h = rest % PERI_HEADS, b = rest / PERI_HEADS, kv = h / PERI_SHARING;
  const unsigned base = peri_shared_at(memory), q_at = base, stage = base + kBytesQ;
  const unsigned short *const k_from = PERI_K + PERI_K_AT(b, kv, 0, 0), *const v_from = PERI_V + PERI_V_AT(b, kv, 0, 0);
  const PERI_INDEX seen = PERI_SEEN(first + kQueries - 1), blocks = (seen + kKeys - 1) / kKeys;
  const PERI_INDEX query = first + warp * 16;
  const auto fetch = [&](const PERI_INDEX block) {
    const unsigned at = stage + (block % 3) * (kBytesK + kBytesV);
    peri_rows<kKeys, kRowQ, PERI_DEPTH>(at, k_from, PERI_K_AT(0, 0, 1, 0), block * kKeys, PERI_KEYS);
    peri_rows<kKeys, kRowV, PERI_VALUES>(at + kBytesK, v_from, PERI_V_AT(0, 0, 1, 0), block * kKeys, PERI_KEYS);
  };
  peri_rows<kQueries, kRowQ, PERI_DEPTH>(q_at, PERI_Q + PERI_Q_AT(b, h, 0, 0), PERI_Q_AT(0, 0, 1, 0), first, PERI_QUERIES);
  if (blocks > 0) fetch(0);
  peri_fetched();
  if (blocks > 1) fetch(1);
  peri_fetched();
  unsigned q[kDepthSteps][4];
  float out[kValueSteps * 2][4], high[2] = {-peri_inf(), -peri_inf()}, sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < kValueSteps * 2; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) out[n][e] = 0.0f;
  for (PERI_INDEX block = 0; block < blocks; ++block) {
    const unsigned k_at = stage + (block % 3) * (kBytesK + kBytesV), v_at = k_at + kBytesK;
    peri_wait<1>();
    __syncthreads();
    if (block + 2 < blocks) fetch(block + 2);
    peri_fetched();
    if (block == 0) {
#pragma unroll
      for (int d = 0; d < kDepthSteps; ++d)
        peri_matrices(q[d], q_at + peri_chunk(warp * 16 + (lane & 15), d * 2 + (lane >> 4), kRowQ));
    }
    float s[8][4];
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = 0.0f;
#pragma unroll
    for (int d = 0; d < kDepthSteps; ++d)
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        unsigned k[4];
        peri_matrices(k, k_at + peri_chunk(n * 16 + (lane >> 4) * 8 + (lane & 7), d * 2 + ((lane >> 3) & 1), kRowQ));
        PERI_MULTIPLY(s[2 * n], q[d], k);
        PERI_MULTIPLY(s[2 * n + 1], q[d], k + 2);
      }
    peri_scores(s, b, h, query, block * kKeys, PERI_PASS);
    float shrink[2];
    peri_join_rows(s, high, sum, shrink);
#pragma unroll
    for (int n = 0; n < kValueSteps * 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[n][e] *= shrink[e / 2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned p[4] = {PERI_PAIR(s[2 * j][0], s[2 * j][1]), PERI_PAIR(s[2 * j][2], s[2 * j][3]),
                             PERI_PAIR(s[2 * j + 1][0], s[2 * j + 1][1]), PERI_PAIR(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
      for (int n = 0; n < kValueSteps; ++n) {
        unsigned v[4];
        peri_matrices_across(v, v_at + peri_chunk(j * 16 + ((lane >> 3) & 1) * 8 + (lane & 7), n * 2 + (lane >> 4), kRowV));
        PERI_MULTIPLY(out[2 * n], p, v);
        PERI_MULTIPLY(out[2 * n + 1], p, v + 2);
      }
    }
  }
  peri_wait<0>();
  __syncthreads();
  float* const strip = memory + warp * 16 * kStrip;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
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

int64_t row_of(int64_t depth) { return depth <= 16 ? 16 : depth <= 32 ? 32 : depth <= 64 ? 64 : 128; }

Status check_types(const ir::Node& n) {
  const DType type = n.in(0)->type.dtype;
  if (type != DType::kF16 && type != DType::kBF16)
    return refused("takes f16 and bf16 only").but_found(std::string(dtype_name(type)));
  for (const size_t k : {1, 2})
    if (n.in(k)->type.dtype != type) return refused("operands of several types");
  return Ok{};
}

struct Read {
  MatchedAttention matched;
  std::array<View, 4> view;  // q, k, v, y
  int64_t queries() const { return view[0].extent[2]; }
  int64_t blocks(int64_t rows) const { return view[0].extent[0] * view[0].extent[1] * ((queries() + rows - 1) / rows); }
};

Result<Read> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "attention") return refused("not a fused attention");
  PERI_TRY(check_types(n));
  Read r;
  PERI_ASSIGN(r.matched, match_attention(n));
  r.view = {r.matched.q, r.matched.k, r.matched.v, r.matched.y};
  for (size_t k = 0; k < 4; ++k) {
    const auto [b, h, s, d] = r.view[k].extent;
    if (d % 8 != 0 || d > kMostDepth || d == 0) return refused("heads of other sizes than 8, 16, ... 128");
    if (r.view[k].stride[3] != 1) return refused("heads that do not lie together");
  }
  if (r.matched.keys == 0) return refused("no keys");
  return r;
}

// The places of an operand as a macro.
std::string place_text(const char* name, const View& v, Signature* s) {
  std::string at = "0";
  for (size_t letter = 0; letter < 4; ++letter)
    if (const int64_t stride = v.stride[letter]; stride != 0)
      at += std::string(" + (") + "BHSD"[letter] + ") * " + (stride == 1 ? "1" : s->size(stride));
  return std::string("#define PERI_") + name + "_AT(B, H, S, D) (" + at + ")\n";
}

Result<std::vector<KernelLaunch>> plan(const Problem& p, const Read& r, int64_t rows) {
  const ir::Node& n = p.anchor();
  Signature s;
  std::string body(cuda::warp_text());
  const auto define = [&](const char* name, const std::string& value) {
    body += std::string("#define PERI_") + name + " " + value + "\n";
  };
  const char* const names[] = {"Q", "K", "V", "Y"};
  for (size_t k = 0; k < 4; ++k) {
    body += place_text(names[k], r.view[k], &s);
    if (k == 3) break;
    if (r.view[k].stride[3] != 1) return refused("heads that do not lie together");
    PERI_ASSIGN(const std::string from, s.value(p, *n.in(k)));
    define(names[k], from);
  }
  const View &q = r.view[0], &k = r.view[1], &v = r.view[2];
  const int64_t keys = k.extent[2], depth = q.extent[3], values = v.extent[3];
  const bool bf16 = n.in(0)->type.dtype == DType::kBF16;
  define("WARPS", std::to_string(rows / 16));
  define("ROW_Q", std::to_string(row_of(depth)));
  define("ROW_V", std::to_string(row_of(values)));
  define("DEPTH", std::to_string(depth));
  define("VALUES", std::to_string(values));
  define("QUERIES", s.size(r.queries()));
  define("KEYS", s.size(keys));
  define("HEADS", s.size(q.extent[1]));
  define("SHARING", s.size(q.extent[1] / k.extent[1]));
  define("MULTIPLY", bf16 ? "peri_mma_bf16" : "peri_mma_f16");
  define("PAIR", bf16 ? "peri_pair_bf16" : "peri_pair_f16");
  define("ZERO_HIDDEN", n.i("zero_hidden_rows") ? "true" : "false");
  define("SCALE", format("((float)%.9g)", n.f("scale", 1.0 / std::sqrt(static_cast<double>(depth)))));
  PERI_ASSIGN(const std::string mask, cuda::mask_text(p, r.matched, &s));
  std::string causal, seen = "PERI_KEYS";
  if (n.i("causal")) {
    const std::string ahead = s.size(keys - r.queries());
    causal = "        if (j > i + " + ahead + ") score = -peri_inf();\n";
    seen = "peri_least((I) + " + ahead + " + 1, PERI_KEYS)";
  }
  define("SEEN(I)", seen);
  body += "PERI_DEVICE PERI_INDEX peri_least(const PERI_INDEX a, const PERI_INDEX b) { return a < b ? a : b; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_wide_text(p, 8, &s));
  if (r.blocks(rows) == 0) return std::vector<KernelLaunch>{};
  body += finish + std::string(kLoads) + std::string(kKernel) + mask + causal + std::string(kRest);
  KernelLaunch launch =
      s.launch("peri_attention", s.text(cuda::most_elements(p), body), r.blocks(rows), static_cast<int>(rows * 2));
  const int64_t stages = std::min(kStages, (keys + kBlock - 1) / kBlock);
  const int64_t loop = (rows + stages * kBlock) * row_of(depth) * 2 + stages * kBlock * row_of(values) * 2,
                end = rows * ((values + 15) / 16 * 16 + 4) * 4;
  launch.shared_bytes = std::max(loop, end);
  return std::vector<KernelLaunch>{std::move(launch)};
}

// A guess (see launch.hpp): blocks of many queries read keys seldom, those of few fill the GPU.
double guess_ms(const Read& r, int64_t rows, int multiprocessors) {
  const double keys = static_cast<double>(r.view[1].extent[2]), depth = static_cast<double>(r.view[0].extent[3]);
  const double block = 1000 + std::ceil(keys / kBlock) * (400 + 64 * depth * 4 / (20 * static_cast<double>(rows) / 16));
  const double resident = std::max(1.0, 256.0 / (static_cast<double>(rows) * 2));
  return (1500 + std::ceil(static_cast<double>(r.blocks(rows)) / (multiprocessors * resident)) * block) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Read r, read(p));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out;
  for (const int64_t rows : kQueries) {
    PERI_ASSIGN(const std::vector<KernelLaunch> launches, plan(p, r, rows));
    if (!launches.empty() && launches[0].shared_bytes > gpu.shared_bytes) continue;
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = format("queries=%d", static_cast<int>(rows));
    out.back().guess_ms = guess_ms(r, rows, gpu.multiprocessors);
  }
  if (out.empty()) return refused("its heads take more shared memory than a block may have");
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext&) {
  PERI_ASSIGN(const int64_t rows, config_int(config, "queries", 16, 128, 64));
  if (rows != 16 && rows != 32 && rows != 64 && rows != 128) return invalid("no block of so many queries");
  PERI_ASSIGN(const Read r, read(p));
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, r, rows));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

const Entry cuda_attention_mma_entry{{
    .name = "cuda_attention_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "fused attention of f16 and bf16 on a GPU's tensor cores, heads of 8 to 128, masks, causal, any length",
    .offer = offer,
    .instantiate = instantiate,
    .samples = {"graph { input q: f16[2,3,20,16]; input k: f16[2,3,70,16]; input v: f16[2,3,70,24]; y = attention(q, "
                "k, v); output y }",
                "graph { input q: f16[1,9,2,40]; input k: f16[1,9,2,40]; input v: f16[1,9,2,40]; input m: "
                "f16[1,1,1,9]; y = attention(q, k, v, m) {q_layout=\"bshd\", k_layout=\"bshd\", v_layout=\"bshd\", "
                "y_layout=\"bshd\"}; output y }",
                "graph { input q: bf16[2,4,33,64]; input k: bf16[2,2,33,64]; input v: bf16[2,2,33,64]; y = "
                "attention(q, k, v) {causal=1}; output y }",
                "graph { input q: f16[1,1,3,8]; input k: f16[1,1,2,8]; input v: f16[1,1,2,8]; y = attention(q, k, v) "
                "{causal=1, zero_hidden_rows=1}; output y }"},
}};

}  // namespace peri::kernels
