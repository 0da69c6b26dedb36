// Kernel cuda_attention_products: attention of float32 on a GPU as two tiled products with their scores in memory: for
// types that the fused kernels on tensor cores do not take.
#include <algorithm>
#include <array>

#include "kernels/cuda/code/attention_shape.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/product.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels {
extern const Entry cuda_attention_products_entry;

namespace {
using cuda::KernelLaunch;
using cuda::Product;
using cuda::Signature;
constexpr double kMaxScoreBytes = 1 << 30;  // of scores: not varied
constexpr size_t kMaxTiles = 5;             // that are offered: not varied

// Scores become weights, in rows: the whole block takes each of them.
constexpr std::string_view kWeights = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_weights(PERI_PARAMETERS) {
  PERI_SHARED peri_sum_type s[32];
  const int t = threadIdx.x;
  for (PERI_INDEX row = blockIdx.x; row < PERI_ROWS; row += gridDim.x) {
    float* const scores = PERI_SCORES + row * PERI_KEYS;
    float high = -peri_inf();
    peri_sum_type sum = 0;
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) high = peri_max(high, scores[j]);
    high = peri_block_max(high, (float*)s);
    const bool hidden = PERI_ZERO_HIDDEN && high == -peri_inf();
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) {
      const float e = hidden ? 0.0f : peri_exp_less(scores[j], high);
      scores[j] = e;
      sum += e;
    }
    sum = peri_block_sum(sum, s);
    const peri_sum_type share = 1 / (hidden ? (peri_sum_type)1 : sum);
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) scores[j] = scores[j] * share;
    __syncthreads();
  }
}
)";

// Four neighbours along the depth are adjacent at a multiple of 16 bytes.
bool is_wide(const HeadView& v) {
  return v.stride[3] == 1 && v.extent[3] % 4 == 0 && v.stride[0] % 4 == 0 && v.stride[1] % 4 == 0 &&
         v.stride[2] % 4 == 0;
}

// What both products begin with: heads of a batch.
std::string heads_text(const MatchedAttention& m, Signature* s) {
  return "#define PERI_HEADS " + s->size(m.heads) + "\n#define PERI_SHARING " + s->size(m.heads / m.kv_heads) + "\n" +
         "#define PERI_OF_BATCH const PERI_INDEX b = batch / PERI_HEADS, h = batch % PERI_HEADS, kv = h / "
         "PERI_SHARING\n";
}

constexpr std::string_view kScores = R"(
PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) { PERI_OF_BATCH; return PERI_Q_AT(b, h, 0, 0); }
PERI_DEVICE const float* peri_a_from(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return PERI_Q + (base + PERI_Q_AT(0, 0, m, k));
}
PERI_DEVICE float peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return *peri_a_from(base, m, k, PERI_PASS);
}
PERI_DEVICE const float* peri_b_from(const PERI_INDEX batch, const PERI_INDEX k, const PERI_INDEX n, PERI_PARAMETERS) {
  PERI_OF_BATCH;
  return PERI_KEY + PERI_K_AT(b, kv, n, k);
}
struct peri_column { PERI_INDEX base; bool inside; };
PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  PERI_OF_BATCH;
  const peri_column out = {PERI_K_AT(b, kv, n, 0), n < PERI_N};
  return out;
}
PERI_DEVICE float peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {
  return column.inside ? PERI_KEY[column.base + PERI_K_AT(0, 0, 0, k)] : 0.0f;
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return (batch * PERI_M + m) * PERI_N + n;
}
PERI_DEVICE void peri_finish(const PERI_INDEX at, const float v, PERI_PARAMETERS) { PERI_SCORES[at] = v; }
PERI_DEVICE float peri_sum(const peri_sum_type sum, const PERI_INDEX batch, const PERI_INDEX i, const PERI_INDEX j, PERI_PARAMETERS) {
  PERI_OF_BATCH;
  float score = sum * PERI_SCALE;
)";

constexpr std::string_view kValues = R"(
PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) { return batch * PERI_M * PERI_K; }
PERI_DEVICE const float* peri_a_from(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return PERI_SCORES + (base + m * PERI_K + k);
}
PERI_DEVICE float peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return *peri_a_from(base, m, k, PERI_PASS);
}
PERI_DEVICE const float* peri_b_from(const PERI_INDEX batch, const PERI_INDEX k, const PERI_INDEX n, PERI_PARAMETERS) {
  PERI_OF_BATCH;
  return PERI_VALUE + PERI_V_AT(b, kv, k, n);
}
struct peri_column { PERI_INDEX base; bool inside; };
PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  PERI_OF_BATCH;
  const peri_column out = {PERI_V_AT(b, kv, 0, n), n < PERI_N};
  return out;
}
PERI_DEVICE float peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {
  return column.inside ? PERI_VALUE[column.base + PERI_V_AT(0, 0, k, 0)] : 0.0f;
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  PERI_OF_BATCH;
  return PERI_Y_AT(b, h, m, n);
}
PERI_DEVICE float peri_sum(const peri_sum_type sum, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return sum;
}
)";

Result<MatchedAttention> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(MatchedAttention m, match_attention(n));
  for (size_t k = 0; k < 3; ++k)
    if (n.in(k)->type.dtype != DType::kF32)
      return refused("takes f32 only").but_found(std::string(dtype_name(n.in(k)->type.dtype)));
  if (m.keys == 0) return refused("no keys");
  const double bytes =
      4.0 * static_cast<double>(m.batch * m.heads) * static_cast<double>(m.queries) * static_cast<double>(m.keys);
  if (bytes > kMaxScoreBytes) return refused("more than 1 GiB of scores");
  return m;
}

// The sizes of both products, in the order of their launches.
std::array<Product, 2> products_of(const MatchedAttention& m) {
  std::array<Product, 2> out;
  for (Product& p : out) {
    p.batch = m.batch * m.heads;
    p.m = m.queries;
  }
  out[0].n = out[1].k = m.keys;
  out[0].k = m.depth;
  out[1].n = m.value_depth;
  out[0].b_along_k = true;
  out[0].a_wide = is_wide(m.q);
  out[0].b_wide = is_wide(m.k);
  out[1].a_wide = m.keys % 4 == 0;
  out[1].b_wide = is_wide(m.v);
  return out;
}

Result<std::unique_ptr<Instance>> plan(const Problem& p, std::string_view config, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const MatchedAttention m, read(p));
  std::array<Product, 2> products = products_of(m);
  const int64_t scores = m.batch * m.heads * m.queries * m.keys, most = std::max(cuda::most_elements(p), scores);
  const auto define = [](const char* name, const std::string& value) {
    return std::string("#define PERI_") + name + " " + value + "\n";
  };
  Signature first, weights, last;
  PERI_ASSIGN(const std::string q, first.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string k, first.value(p, *n.in(1)));
  PERI_ASSIGN(const std::string mask, cuda::mask_text(p, m, &first));
  const double cap = static_cast<double>(m.cap);
  products[0].functions = define("Q", q) + define("KEY", k) + define("SCORES", first.workspace()) +
                          cuda::place_text('Q', m.q, &first) + cuda::place_text('K', m.k, &first) +
                          heads_text(m, &first) +
                          define("SCALE", format("((float)%.9g)", static_cast<double>(m.scale))) + std::string(kScores);
  if (cap > 0) products[0].functions += format("  score = (float)%.9g * tanhf(score / (float)%.9g);\n", cap, cap);
  products[0].functions += mask;
  if (m.causal) products[0].functions += "  if (j > i + " + first.size(m.causal_offset) + ") score = -peri_inf();\n";
  products[0].functions += " \n  return score;\n}\n";
  const int threads = cuda::row_threads(m.keys);
  const int64_t rows = m.batch * m.heads * m.queries;
  const std::string rows_text = define("ROWS", weights.size(rows)) + define("KEYS", weights.size(m.keys)) +
                                define("SCORES", weights.workspace()) +
                                define("ZERO_HIDDEN", m.zero_hidden ? "true" : "false") +
                                cuda::sums_text(DType::kF32, gpu) + cuda::block_text(threads) + std::string(kWeights);
  PERI_ASSIGN(const std::string v, last.value(p, *n.in(2)));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &last));
  products[1].functions = define("VALUE", v) + define("SCORES", last.workspace()) + cuda::place_text('V', m.v, &last) +
                          cuda::place_text('Y', m.y, &last) + heads_text(m, &last) + std::string(kValues) + finish;
  PERI_ASSIGN(cuda::ProductLaunches one, cuda::product_launches(products[0], config, most, gpu, &first));
  PERI_ASSIGN(cuda::ProductLaunches two, cuda::product_launches(products[1], config, most, gpu, &last));
  if (one.workspace + two.workspace != 0) return invalid("its workspace has no room for parts of the depth");
  if (rows * m.value_depth == 0) return cuda::LaunchInstance::make(std::vector<KernelLaunch>{});
  std::vector<KernelLaunch> out = std::move(one.launches);
  out.push_back(weights.launch("peri_weights", weights.text(most, rows_text), cuda::blocks_for(rows, 1), threads));
  for (KernelLaunch& l : two.launches) out.push_back(std::move(l));
  return cuda::LaunchInstance::make(std::move(out), static_cast<size_t>(scores) * sizeof(float));
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(cuda::check_row_major(*p.graph));
  PERI_ASSIGN(const MatchedAttention m, read(p));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  const std::array<Product, 2> products = products_of(m);
  const std::vector<cuda::ProductConfig> second = cuda::product_configs(products[1], gpu);
  const double moved =
      3 * 4.0 * static_cast<double>(m.batch * m.heads) * static_cast<double>(m.queries) * static_cast<double>(m.keys);
  std::vector<Offer> out;
  for (const cuda::ProductConfig& a : cuda::product_configs(products[0], gpu)) {
    if (a.text.find("split=1") == std::string::npos) continue;
    const auto same = std::find_if(second.begin(), second.end(), [&](const auto& b) { return b.text == a.text; });
    if (same == second.end()) continue;
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = a.text;
    out.back().guess_ms = a.guess_ms + same->guess_ms + cuda::moving_ms(1, moved);
  }
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  PERI_TRY(plan(p, out.front().config, gpu));
  if (out.size() > kMaxTiles) out.resize(kMaxTiles);
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  return plan(p, config, cuda::limits_of(*context.target));
}
}  // namespace

const Entry cuda_attention_products_entry{{
    .name = "cuda_attention_products",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "attention of f32 on a GPU as two products, any layout of heads, masks, soft cap, causal",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input q: f32[2,2,19,24]; input k: f32[2,2,37,24]; input v: f32[2,2,37,16]; input m: "
         "f32[2,1,1,37]; y = attention(q, k, v, m); output y }",
         "graph { input q: f32[1,4,21,16]; input k: f32[1,2,40,16]; input v: f32[1,2,40,12]; y = attention(q, k, "
         "v) {causal=1}; output y }"},
}};

}  // namespace peri::kernels
