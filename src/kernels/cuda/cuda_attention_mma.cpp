// Kernel cuda_attention_mma: fused attention of float16 or bfloat16 on the tensor cores of a GPU since sm_80: a warp
// has 16 queries, keys are streamed in blocks, with an online softmax in float32; scores are not written to memory.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/code/attention_shape.hpp"
#include "kernels/cuda/code/attention_text.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/warp.hpp"

namespace peri::kernels {
extern const Entry cuda_attention_mma_entry;

namespace {
using cuda::KernelLaunch;
using cuda::Signature;
using View = HeadView;
constexpr int64_t kBlock = 64;                     // keys
constexpr int64_t kStages = 3;                     // blocks in shared memory, or as many as a block of threads may have
constexpr int64_t kMinStages = 2;                  // one is read while the next is copied
constexpr int64_t kMaxDepth = 128;                 // of a head: its sums are held in registers
constexpr int64_t kQueries[] = {16, 32, 64, 128};  // of a block of threads

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
    if (d % 8 != 0 || d > kMaxDepth || d == 0) return refused("heads of other sizes than 8, 16, ... 128");
    if (r.view[k].stride[3] != 1) return refused("heads that do not lie together");
  }
  if (r.matched.keys == 0) return refused("no keys");
  return r;
}

// The mask, and causality: PERI_KEY_MASK for key j of (b, h) alone; if they depend on the query too, peri_joined()
// returns the score with both applied.
Result<std::string> masks_text(const Problem& p, const Read& r, Signature* s) {
  const ir::Node& n = p.anchor();
  const MatchedAttention& m = r.matched;
  std::string key = "0.0f", joined, touched = "true";
  if (m.mask != DType::kInvalid) {
    if (m.mask == DType::kF64) return refused("a mask of f64");
    PERI_ASSIGN(const std::string name, s->value(p, *n.in(3)));
    const char* const coordinate[] = {"b", "h", "i", "j"};
    std::string at = "0";
    for (size_t k = 0; k < 4; ++k)
      if (m.mask_strides[k] != 0) at += std::string(" + ") + coordinate[k] + " * " + s->size(m.mask_strides[k]);
    const std::string value = cuda::loaded(m.mask, name + "[" + at + "]");
    const std::string added =
        m.mask == DType::kBool ? "(" + value + " ? 0.0f : -peri_inf())" : "peri_units(" + value + ")";
    (m.mask_strides[2] == 0 ? key : joined) = m.mask_strides[2] == 0 ? added : "  score += " + added + ";\n";
  }
  if (n.i("causal")) {
    const std::string ahead = s->size(m.causal_offset);
    if (joined.empty()) touched = "(KEY) + kKeys > (QUERY) + " + ahead + " + 1";
    joined += "  if (j > i + " + ahead + ") score = -peri_inf();\n";
  }
  return "#define PERI_KEY_MASK " + key + format("\n#define PERI_BY_QUERY %d\n", !joined.empty()) +
         "#define PERI_TOUCHED(QUERY, KEY) (" + touched + ")\nPERI_DEVICE float peri_units(float m);\n" +
         "PERI_DEVICE float peri_joined(float score, const PERI_INDEX b, const PERI_INDEX h, const PERI_INDEX i, const "
         "PERI_INDEX j, PERI_PARAMETERS) {\n" +
         joined + "  return score;\n}\n";
}

int64_t shared_bytes(const Read& r, int64_t rows, int64_t stages) {
  const int64_t depth = r.view[0].extent[3], values = r.view[2].extent[3];
  const int64_t filled = std::min(stages, (r.matched.keys + kBlock - 1) / kBlock);
  const int64_t loop = (rows + filled * kBlock) * row_of(depth) * 2 + filled * kBlock * row_of(values) * 2 +
                       stages * kBlock * 4,
                end = rows * ((values + 15) / 16 * 16 + 4) * 4;
  return std::max(loop, end);
}

// As many stages as wanted, or as fit; 0: not even the least.
int64_t stages_within(const Read& r, int64_t rows, int64_t wanted, int64_t limit) {
  while (wanted > kMinStages && shared_bytes(r, rows, wanted) > limit) --wanted;
  return shared_bytes(r, rows, wanted) > limit ? 0 : wanted;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p, const Read& r, int64_t rows, int64_t stages) {
  const ir::Node& n = p.anchor();
  Signature s;
  std::string body(cuda::warp_text());
  const auto define = [&](const char* name, const std::string& value) {
    body += std::string("#define PERI_") + name + " " + value + "\n";
  };
  const char* const names[] = {"Q", "K", "V", "Y"};
  for (size_t k = 0; k < 4; ++k) {
    body += cuda::place_text(names[k][0], r.view[k], &s);
    if (k == 3) break;
    PERI_ASSIGN(const std::string from, s.value(p, *n.in(k)));
    define(names[k], from);
  }
  const View &q = r.view[0], &k = r.view[1], &v = r.view[2];
  const int64_t keys = k.extent[2], depth = q.extent[3], values = v.extent[3];
  const bool bf16 = n.in(0)->type.dtype == DType::kBF16;
  // What a thread holds of its rows: 128 registers will do for 64 columns, 168 where a mask goes by the query too.
  const bool by_query = r.matched.mask != DType::kInvalid && r.matched.mask_strides[2] != 0;
  const int64_t resident = (depth > 64 || values > 64 ? 256 : by_query ? 384 : 512) / (rows * 2);
  define("WARPS", std::to_string(rows / 16));
  define("STAGES", std::to_string(stages));
  define("RESIDENT", std::to_string(std::max<int64_t>(1, resident)));
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
  const double scale = n.f("scale", 1.0 / std::sqrt(static_cast<double>(depth)));
  const double cap = static_cast<double>(r.matched.cap), unit = std::log(2.0);
  define("SCORE(S, M)", cap > 0 ? format("fmaf(tanhf((S) * (float)%.9g), (float)%.9g, M)", scale / cap, cap / unit)
                                : format("fmaf(S, (float)%.9g, M)", scale / unit));
  PERI_ASSIGN(const std::string masks, masks_text(p, r, &s));
  define("SEEN(I)",
         n.i("causal") ? "peri_least((I) + " + s.size(r.matched.causal_offset) + " + 1, PERI_KEYS)" : "PERI_KEYS");
  body += "PERI_DEVICE PERI_INDEX peri_least(const PERI_INDEX a, const PERI_INDEX b) { return a < b ? a : b; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_wide_text(p, 8, &s));
  if (r.blocks(rows) == 0) return std::vector<KernelLaunch>{};
  body += masks + finish + std::string(cuda::attention_text());
  KernelLaunch launch =
      s.launch("peri_attention", s.text(cuda::most_elements(p), body), r.blocks(rows), static_cast<int>(rows * 2));
  launch.shared_bytes = shared_bytes(r, rows, stages);
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
    const int64_t stages = stages_within(r, rows, kStages, gpu.shared_bytes);
    if (stages == 0) continue;
    PERI_TRY(plan(p, r, rows, stages));
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = format("queries=%d", static_cast<int>(rows));
    out.back().guess_ms = guess_ms(r, rows, gpu.multiprocessors);
  }
  if (out.empty()) return refused("its heads take more shared memory than a block may have");
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t rows, config_int(config, "queries", 16, 128, 64));
  if (rows != 16 && rows != 32 && rows != 64 && rows != 128) return invalid("no block of so many queries");
  PERI_ASSIGN(const int64_t set, setting(cuda_attention_mma_entry.kernel, config, "stages"));
  PERI_ASSIGN(const Read r, read(p));
  const int64_t limit = cuda::limits_of(*context.target).shared_bytes;
  const int64_t stages = stages_within(r, rows, set == 0 ? kStages : set, limit);
  if (stages == 0) return refused("its heads take more shared memory than a block may have");
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, r, rows, stages));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

const Entry cuda_attention_mma_entry{{
    .name = "cuda_attention_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "fused attention of f16 and bf16 on a GPU's tensor cores, heads of 8 to 128, masks, soft cap, causal, any "
             "length",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input q: f16[2,3,20,16]; input k: f16[2,3,70,16]; input v: f16[2,3,70,24]; y = attention(q, "
                "k, v); output y }",
                "graph { input q: f16[1,9,2,40]; input k: f16[1,9,2,40]; input v: f16[1,9,2,40]; input m: "
                "f16[1,1,1,9]; y = attention(q, k, v, m) {q_layout=\"bshd\", k_layout=\"bshd\", v_layout=\"bshd\", "
                "y_layout=\"bshd\"}; output y }",
                "graph { input q: bf16[2,4,33,64]; input k: bf16[2,2,33,64]; input v: bf16[2,2,33,64]; y = "
                "attention(q, k, v) {causal=1}; output y }",
                "graph { input q: f16[1,1,3,8]; input k: f16[1,1,2,8]; input v: f16[1,1,2,8]; y = attention(q, k, v) "
                "{causal=1, zero_hidden_rows=1}; output y }",
                "graph { input q: f16[1,2,40,16]; input k: f16[1,2,70,16]; input v: f16[1,2,70,16]; y = attention(q, "
                "k, v) {causal=1, past=dims[7], softcap=0.5}; output y }"},
    .tunables = {{"stages", "blocks of keys in shared memory, or as many as it holds", {2, 4, 3}}},
}};

}  // namespace peri::kernels
