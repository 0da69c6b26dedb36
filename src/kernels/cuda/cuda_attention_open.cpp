// Kernel cuda_attention_open: ONNX's Attention in every form on a GPU: caches, masks shorter than the keys, padded
// keys, windows, soft cap, scores as a result, any of its results unread; one block of threads per query, scores in a
// workspace.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

enum Port { kQ, kK, kV, kMask, kPastKey, kPastValue, kSeen };
constexpr int64_t kMaxScores = int64_t{1} << 28;  // 1 GiB of workspace

// A tensor by heads, [batch, heads, places, depth] or [batch, places, heads * depth].
struct View {
  int64_t batch, heads, places, depth;
  bool three;
  View(const std::vector<int64_t>& d, int64_t heads_of_three)
      : batch(d[0]),
        heads(d.size() == 4 ? d[1] : heads_of_three),
        places(d[d.size() - 2]),
        depth(d.size() == 4 ? d[3] : d[2] / heads_of_three),
        three(d.size() == 3) {}
  std::string at(const std::string& b, const std::string& h, const std::string& place, const std::string& d,
                 Signature* s) const {
    const std::string all = s->size(heads), places_text = s->size(places), depth_text = s->size(depth);
    return three ? "((" + b + " * " + places_text + " + " + place + ") * " + all + " + " + h + ") * " + depth_text +
                       " + " + d
                 : "((" + b + " * " + all + " + " + h + ") * " + places_text + " + " + place + ") * " + depth_text +
                       " + " + d;
  }
};

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_open(PERI_PARAMETERS) {
  PERI_SHARED peri_sum_type s[32];
  const int t = threadIdx.x;
  for (PERI_INDEX row = blockIdx.x; row < PERI_ROWS; row += gridDim.x) {
    const PERI_INDEX i = row % PERI_QUERIES, h = row / PERI_QUERIES % PERI_HEADS, b = row / PERI_QUERIES / PERI_HEADS;
    const PERI_INDEX kv = h / PERI_SHARING;
    float* const scores = PERI_SCORES + row * PERI_KEYS;
    float high = -peri_inf();
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) {
      peri_sum_type product = 0;
      for (PERI_INDEX d = 0; d < PERI_DEPTH; ++d)
        product = peri_fma(peri_q(b, h, i, d, PERI_PASS), peri_k(b, kv, j, d, PERI_PASS), product);
      float score = product * PERI_SCALE;
      PERI_KEEP_0;
      PERI_CAP;
      PERI_KEEP_1;
      score = peri_met(score, b, h, i, j, PERI_PASS);
      PERI_KEEP_2;
      scores[j] = score;
      high = peri_max(high, score);
    }
    high = peri_block_max(high, (float*)s);
    const bool hidden = high == -peri_inf();
    peri_sum_type sum = 0;
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) {
      const float e = hidden ? 0.0f : peri_exp_less(scores[j], high);
      scores[j] = e;
      sum += e;
    }
    sum = peri_block_sum(sum, s);
    if (hidden) sum = 1;
    for (PERI_INDEX j = t; j < PERI_KEYS; j += PERI_T) {
      const float score = scores[j] / sum;
      (void)score;
      PERI_KEEP_3;
    }
    __syncthreads();
    for (PERI_INDEX d = t; d < PERI_VALUES; d += PERI_T) {
      peri_sum_type all = 0;
      for (PERI_INDEX j = 0; j < PERI_KEYS; ++j)
        if (scores[j] != 0.0f) all = peri_fma(scores[j], peri_v(b, kv, j, d, PERI_PASS), all);
      const float v = all / sum;
      PERI_STORE;
    }
    __syncthreads();
  }
}
)";

// The result of the region that the node's result `k` is, or -1.
int result_of(const Problem& p, size_t k) {
  const ir::Node& n = p.anchor();
  for (size_t j = 0; k < n.outputs.size() && n.outputs[k] && j < p.graph->outputs.size(); ++j)
    if (p.graph->outputs[j] == n.outputs[k]) return static_cast<int>(j);
  return -1;
}

struct Keys {
  std::string element;  // of place (b, h, j, d), not yet loaded
  std::string text;     // peri_NAME, that element as a float
};
// Keys or values: those of the past, then the new ones.
Result<Keys> keys_of(const Problem& p, const char* name, size_t port, size_t past_port, const View& view,
                     Signature* s) {
  const ir::Node& n = p.anchor();
  const DType type = n.in(port)->type.dtype;
  PERI_ASSIGN(const std::string now, s->value(p, *n.in(port)));
  Keys out;
  if (const ir::Value* past = n.in(past_port)) {
    if (past->type.dtype != type) return refused("a past of another type");
    PERI_ASSIGN(const std::string before, s->value(p, *past));
    const View old(dims_of(*past), 0);
    const std::string places = s->size(old.places);
    out.element = "(j < " + places + " ? " + before + "[" + old.at("b", "h", "j", "d", s) + "] : " + now + "[" +
                  view.at("b", "h", "(j - " + places + ")", "d", s) + "])";
  } else {
    out.element = now + "[" + view.at("b", "h", "j", "d", s) + "]";
  }
  out.text = format(
                 "PERI_DEVICE float peri_%s(const PERI_INDEX b, const PERI_INDEX h, const PERI_INDEX j, "
                 "const PERI_INDEX d, PERI_PARAMETERS) { return ",
                 name) +
             cuda::loaded(type, out.element) + "; }\n";
  return out;
}

// What a score meets: a place that the query does not see is hidden, else the mask is added.
Result<std::string> met_text(const Problem& p, const View& q, int64_t keys, Signature* s) {
  const ir::Node& n = p.anchor();
  std::string offset = "0", see, add;
  if (n.in(kPastKey)) offset = s->size(dims_of(*n.in(kPastKey))[2]);
  if (n.in(kSeen)) {
    PERI_ASSIGN(const std::string seen, s->value(p, *n.in(kSeen)));
    offset = "(PERI_INDEX)" + seen + "[b] - " + s->size(q.places);
    see += " && (peri_i64)j < (peri_i64)" + seen + "[b]";
  }
  if (n.i("is_causal") != 0) see += " && j <= place";
  if (const int64_t left = n.i("left_window_size", -1); left >= 0) see += " && j >= place - " + s->size(left);
  if (const int64_t right = n.i("right_window_size", -1); right >= 0) see += " && j <= place + " + s->size(right);
  if (const ir::Value* mask = n.in(kMask)) {
    const std::vector<int64_t> m = dims_of(*mask);
    const DType type = mask->type.dtype;
    if (type != DType::kBool && type != DType::kF32 && type != DType::kF16 && type != DType::kBF16)
      return refused("a mask of %s", dtype_name(type).data());
    if (m.empty() || m.back() == 0) return refused("an empty mask");
    PERI_ASSIGN(const std::string name, s->value(p, *mask));
    if (m.back() < keys) see += " && j < " + s->size(m.back());
    std::vector<int64_t> wide(4 - m.size(), 1);
    wide.insert(wide.end(), m.begin(), m.end());
    const char* const coordinate[] = {"b", "h", "i", "j"};
    std::string at = "0";
    int64_t step = 1;
    for (size_t k = 4; k-- > 0; step *= wide[k])
      if (wide[k] != 1 || (k == 3 && keys == 1)) at += std::string(" + ") + coordinate[k] + " * " + s->size(step);
    const std::string value = cuda::loaded(type, name + "[" + at + "]");
    add = type == DType::kBool ? "  if (!" + value + ") return -peri_inf();\n" : "  score += " + value + ";\n";
  }
  return "PERI_DEVICE float peri_met(float score, const PERI_INDEX b, const PERI_INDEX h, const PERI_INDEX i, "
         "const PERI_INDEX j, PERI_PARAMETERS) {\n  const PERI_INDEX place = " +
         offset + " + i;\n  (void)place;\n  if (!(true" + see + ")) return -peri_inf();\n" + add +
         "  return score;\n}\n";
}

Status check(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "onnx_attention") return refused("not ONNX's attention");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  PERI_TRY(cuda::check_row_major(*p.graph));
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype == DType::kF64) return refused("takes f32, f16 and bf16 only").but_found("f64");
  return Ok{};
}

// A launch that writes keys or values behind those of the past.
std::string present_text(const std::string& entry, const Keys& keys, const std::string& to,
                         const std::vector<int64_t>& d, Signature* s) {
  return cuda::each_text(entry, s->size(cuda::elements_of(d)),
                         cuda::coordinates_text(d, s) + "    const PERI_INDEX b = c0, h = c1, j = c2, d = c3;\n    " +
                             to + "[i] = " + keys.element + ";\n");
}

Result<cuda::Planned> plan(const Problem& p, const cuda::GpuLimits& gpu) {
  PERI_TRY(check(p));
  const ir::Node& n = p.anchor();
  const View q(dims_of(*n.in(kQ)), n.i("q_num_heads", 1)), k(dims_of(*n.in(kK)), n.i("kv_num_heads", 1)),
      v(dims_of(*n.in(kV)), n.i("kv_num_heads", 1));
  const int64_t keys = k.places + (n.in(kPastKey) ? dims_of(*n.in(kPastKey))[2] : 0);
  const int64_t rows = q.batch * q.heads * q.places;
  if (rows == 0 || keys == 0 || v.depth == 0) return refused("an empty tensor");
  if (rows > kMaxScores / keys) return refused("more than %lld scores", static_cast<long long>(kMaxScores));
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(kQ)));
  PERI_ASSIGN(const Keys key, keys_of(p, "k", kK, kPastKey, k, &s));
  PERI_ASSIGN(const Keys value, keys_of(p, "v", kV, kPastValue, v, &s));
  PERI_ASSIGN(const std::string met, met_text(p, q, keys, &s));
  const int threads = cuda::row_threads(keys);
  std::string text = cuda::sums_text(n.in(kQ)->type.dtype, gpu) + cuda::block_text(threads);
  const auto define = [&](const std::string& name, const std::string& what) {
    text += "#define PERI_" + name + " " + what + "\n";
  };
  define("ROWS", s.size(rows));
  define("QUERIES", s.size(q.places));
  define("HEADS", s.size(q.heads));
  define("SHARING", s.size(q.heads / k.heads));
  define("KEYS", s.size(keys));
  define("DEPTH", s.size(q.depth));
  define("VALUES", s.size(v.depth));
  define("SCORES", s.workspace());
  const double scale = n.f("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.depth, 1))));
  define("SCALE", format("((float)%.9g)", scale));
  const double cap = n.f("softcap", 0);
  define("CAP", cap > 0 ? format("score = (float)%.9g * tanhf(score / (float)%.9g)", cap, cap) : "");
  const int kept = result_of(p, 3), made = result_of(p, 0);
  for (int64_t mode = 0; mode < 4; ++mode) {
    std::string keep;
    if (kept >= 0 && n.i("qk_matmul_output_mode") == mode) {
      PERI_ASSIGN(const std::string to, s.output(p, static_cast<size_t>(kept)));
      keep = to + "[row * PERI_KEYS + j] = " + cuda::stored(n.outputs[3]->type.dtype, "score");
    }
    define("KEEP_" + std::to_string(mode), keep);
  }
  std::string store = "(void)v";
  if (made >= 0) {
    PERI_ASSIGN(const std::string to, s.output(p, static_cast<size_t>(made)));
    const View y(dims_of(*n.outputs[0]), q.heads);
    store = to + "[" + y.at("b", "h", "i", "d", &s) + "] = " + cuda::stored(n.outputs[0]->type.dtype, "v");
  }
  define("STORE", store);
  text +=
      "PERI_DEVICE float peri_q(const PERI_INDEX b, const PERI_INDEX h, const PERI_INDEX i, const PERI_INDEX d, "
      "PERI_PARAMETERS) { return " +
      cuda::loaded(n.in(kQ)->type.dtype, from + "[" + q.at("b", "h", "i", "d", &s) + "]") + "; }\n" + key.text +
      value.text + met + std::string(kKernel);
  std::vector<std::pair<std::string, int64_t>> presents;
  for (const size_t port : {size_t{1}, size_t{2}})
    if (const int at = result_of(p, port); at >= 0) {
      PERI_ASSIGN(const std::string to, s.output(p, static_cast<size_t>(at)));
      const std::vector<int64_t> d = dims_of(*n.outputs[port]);
      presents.emplace_back("peri_present" + std::to_string(port), cuda::elements_of(d));
      text += present_text(presents.back().first, port == 1 ? key : value, to, d, &s);
    }
  text = s.text(std::max(cuda::most_elements(p), rows * keys), text);
  cuda::Planned out;
  out.workspace = static_cast<size_t>(rows * keys) * sizeof(float);
  for (const auto& [entry, count] : presents)
    if (count > 0) out.launches.push_back(s.launch(entry, text, cuda::blocks_for(count, 256), 256));
  if (made >= 0 || kept >= 0) out.launches.push_back(s.launch("peri_open", text, cuda::blocks_for(rows, 1), threads));
  return out;
}
}  // namespace

extern const Entry cuda_attention_open_entry;
const Entry cuda_attention_open_entry = [] {
  Entry out = cuda::entry_of<plan>("cuda_attention_open",
                                   "ONNX's Attention with caches, windows, soft cap, padded keys, its scores on a GPU");
  out.kernel.samples = {
      "graph { input q: f16[2,4,24]; input k: f16[2,6,8]; input v: f16[2,6,6]; y = onnx_attention(q, k, v) "
      "{is_causal=1, q_num_heads=6, kv_num_heads=2, softcap=3.0}; output y }",
      "graph { input q: f32[1,2,3,4]; input k: f32[1,2,3,4]; input v: f32[1,2,3,4]; input m: f32[1,1,3,5]; input pk: "
      "f32[1,2,2,4]; input pv: f32[1,2,2,4]; y, a, b, s = onnx_attention(q, k, v, m, pk, pv) {is_causal=1, "
      "left_window_size=3, qk_matmul_output_mode=2}; output y; output a; output b; output s }",
      // rows that see nothing
      "graph { input q: f16[1,2,2,8]; input k: f16[1,2,3,8]; input v: f16[1,2,3,8]; const m: bool[2,3] = [0, 0, 0, 1, "
      "0, 1]; y, a, b, s = onnx_attention(q, k, v, m) {qk_matmul_output_mode=3}; output y; output s }"};
  return out;
}();

}  // namespace peri::kernels
