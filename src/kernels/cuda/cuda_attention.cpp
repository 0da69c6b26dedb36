// Kernel cuda_attention: fused attention over any layout of heads, with additive or boolean mask, on a GPU: one block
// of threads per query, its scores in shared memory.
#include <array>

#include "kernels/cuda/code/attention_shape.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels {
extern const Entry cuda_attention_entry;

namespace {
using cuda::KernelLaunch;
using cuda::Signature;
constexpr int64_t kMaxKeys = 8192;  // scores of one query: 32 KiB

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_attention(PERI_PARAMETERS) {
  PERI_DYNAMIC(scores);
  PERI_SHARED peri_sum_type s[32];
  const int t = threadIdx.x;
  for (PERI_INDEX row = blockIdx.x; row < PERI_ROWS; row += gridDim.x) {
    const PERI_INDEX i = row % PERI_QUERIES, h = row / PERI_QUERIES % PERI_HEADS, b = row / PERI_QUERIES / PERI_HEADS;
    const PERI_INDEX kv = h / PERI_SHARING;
    float high = -peri_inf();
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) {
      peri_sum_type product = 0;
      for (PERI_INDEX d = 0; d < PERI_DEPTH; ++d)
        product = peri_fma(peri_q(PERI_Q_AT(b, h, i, d), PERI_PASS), peri_k(PERI_K_AT(b, kv, j, d), PERI_PASS), product);
      float score = product * PERI_SCALE;
)";
constexpr std::string_view kRest = R"(      scores[j] = score;
      high = peri_max(high, score);
    }
    high = peri_block_max(high, (float*)s);
    const bool hidden = PERI_ZERO_HIDDEN && high == -peri_inf();
    peri_sum_type sum = 0;
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) {
      const float e = hidden ? 0.0f : peri_exp_less(scores[j], high);
      scores[j] = e;
      sum += e;
    }
    sum = hidden ? 1 : sum;
    sum = hidden ? peri_block_max(sum, s) : peri_block_sum(sum, s);
#if PERI_T == 32
    __syncthreads();  // one warp's sums are shuffles, which order no memory
#endif
    for (PERI_INDEX d = t; d < PERI_VALUES; d += PERI_T) {
      peri_sum_type v = 0;
      for (PERI_INDEX j = 0; j < PERI_KEYS; ++j)
        if (scores[j] != 0.0f) v = peri_fma(scores[j], peri_v(PERI_V_AT(b, kv, j, d), PERI_PASS), v);
      peri_finish(PERI_Y_AT(b, h, i, d), v / sum, PERI_PASS);
    }
    __syncthreads();
  }
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const MatchedAttention m, match_attention(n));
  Signature s;
  std::string body;
  const std::array<const HeadView*, 4> view = {&m.q, &m.k, &m.v, &m.y};
  const char* const port[] = {"q", "k", "v", "y"};
  for (size_t k = 0; k < 4; ++k) {
    const ir::Value* const value = k < 3 ? n.in(k) : n.out();
    PERI_CHECK(value, "an attention without q, k, v or y");
    const DType dtype = value->type.dtype;
    if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(dtype)));
    const std::string name(port[k]);
    body += cuda::place_text(static_cast<char>(port[k][0] - 'a' + 'A'), *view[k], &s);
    if (k == 3) continue;
    PERI_ASSIGN(const std::string from, s.value(p, *value));
    body += "PERI_DEVICE float peri_" + name + "(const PERI_INDEX at, PERI_PARAMETERS) { return " +
            cuda::loaded(dtype, from + "[at]") + "; }\n";
  }
  const int64_t rows = m.batch * m.heads * m.queries;
  if (m.keys > kMaxKeys) return refused("more than %lld keys", static_cast<long long>(kMaxKeys));
  if (m.keys == 0) return refused("no keys");
  PERI_ASSIGN(const std::string mask, cuda::mask_text(p, m, &s));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  if (rows * m.value_depth == 0) return std::vector<KernelLaunch>{};
  const int threads = cuda::row_threads(m.keys);
  const auto define = [&](const char* name, const std::string& value) {
    body += std::string("#define PERI_") + name + " " + value + "\n";
  };
  define("ROWS", s.size(rows));
  define("QUERIES", s.size(m.queries));
  define("HEADS", s.size(m.heads));
  define("SHARING", s.size(m.heads / m.kv_heads));
  define("KEYS", s.size(m.keys));
  define("DEPTH", std::to_string(m.depth));
  define("VALUES", std::to_string(m.value_depth));
  define("ZERO_HIDDEN", m.zero_hidden ? "true" : "false");
  define("SCALE", format("((float)%.9g)", static_cast<double>(m.scale)));
  const double cap = static_cast<double>(m.cap);
  const std::string capped =
      cap > 0 ? format("      score = (float)%.9g * tanhf(score / (float)%.9g);\n", cap, cap) : "";
  const std::string causal =
      m.causal ? "      if (j > i + " + s.size(m.causal_offset) + ") score = -peri_inf();\n" : "";
  body += cuda::sums_text(n.in(0)->type.dtype, gpu) + cuda::block_text(threads) + finish + std::string(kKernel) +
          capped + mask + causal + std::string(kRest);
  KernelLaunch launch =
      s.launch("peri_attention", s.text(cuda::most_elements(p), body), cuda::blocks_for(rows, 1), threads);
  launch.shared_bytes = m.keys * static_cast<int64_t>(sizeof(float));
  return std::vector<KernelLaunch>{std::move(launch)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t turns, setting(cuda_attention_entry.kernel, config, "turns"));
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, cuda::limits_of(*context.target)));
  for (KernelLaunch& l : launches) l.blocks = cuda::blocks_in_turns(l.blocks, turns);
  return cuda::LaunchInstance::make(std::move(launches));
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(std::vector<Offer> out, cuda::offer_of<plan>(p, target));
  PERI_ASSIGN(const MatchedAttention m, match_attention(p.anchor()));
  const double sums =
      static_cast<double>(m.batch * m.heads * m.queries) * static_cast<double>(m.keys * (m.depth + m.value_depth));
  out[0].guess_ms = (4000 + sums / (19 * cuda::limits_of(target).multiprocessors)) / 1e6;  // see launch.hpp
  return out;
}
}  // namespace

const Entry cuda_attention_entry = [] {
  Entry out = cuda::entry_of<offer, instantiate>(
      "cuda_attention", "fused attention on a GPU, any layout of heads, masks, soft cap, causal, up to 8192 keys");
  out.kernel.tunables = {cuda::turns_tunable("queries that a block computes one after the other")};
  return out;
}();

}  // namespace peri::kernels
