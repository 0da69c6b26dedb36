// ONNX Attention (since opset 23): grouped heads, masks, causal and sliding windows, caches, soft cap, scores as an
// output. In its plain form the pass that fuses attention turns it into the op `attention`. A query that sees no key
// gives zeros.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/attend.hpp"
#include "ops/reference/cost.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

enum Port { kQ, kK, kV, kMask, kPastKey, kPastValue, kSeen };

Status same(const Dim& a, const Dim& b, const char* what) {
  if (a.is_const() && b.is_const() && !(a == b)) return invalid("%s", what).expecting(a.text()).but_found(b.text());
  return Ok{};
}

// [batch, heads, places, depth] of q, k or v.
Result<Shape> by_heads(const ir::Node& node, size_t port) {
  const Shape& x = *node.in(port)->type.shape;
  if (x.size() == 4) return x;
  const char* const key = port == kQ ? "q_num_heads" : "kv_num_heads";
  if (x.size() != 3) return invalid("q, k and v have a wrong rank").expecting("3 or 4").but_found(shape_text(x));
  const int64_t heads = node.i(key);
  if (heads < 1)
    return invalid("%s is out of range", key).expecting(">= 1 with inputs of rank 3").but_found(std::to_string(heads));
  if (x[2].is_const() && x[2].value() % heads != 0)
    return invalid("%s does not divide the last dimension", key)
        .expecting("a divisor of " + x[2].text())
        .but_found(std::to_string(heads));
  return Shape{x[0], Dim(heads), x[1], floordiv(x[2], Dim(heads))};
}

Status check_options(const InferContext& c) {
  if (c.has(kPastKey) != c.has(kPastValue))
    return invalid("past_key and past_value stand together").expecting("both or neither");
  if (c.has(kSeen) && c.has(kPastKey))
    return invalid("nonpad_kv_seqlen and past_key exclude each other").expecting("one of them");
  if (const int64_t mode = c.node.i("qk_matmul_output_mode"); mode < 0 || mode > 3)
    return invalid("qk_matmul_output_mode is out of range").expecting("0 to 3").but_found(std::to_string(mode));
  if (const double cap = c.node.f("softcap"); cap < 0)
    return invalid("softcap is out of range").expecting(">= 0").but_found(std::to_string(cap));
  if (c.node.f("scale", 1) < 0)
    return invalid("scale is out of range").expecting(">= 0").but_found(std::to_string(c.node.f("scale")));
  return Ok{};
}

Status infer(InferContext& c) {
  PERI_TRY(check_options(c));
  PERI_ASSIGN(const Shape q, by_heads(c.node, kQ));
  PERI_ASSIGN(const Shape k, by_heads(c.node, kK));
  PERI_ASSIGN(const Shape v, by_heads(c.node, kV));
  PERI_TRY(same(q[0], k[0], "q and k differ in batch"));
  PERI_TRY(same(k[0], v[0], "k and v differ in batch"));
  PERI_TRY(same(k[1], v[1], "k and v differ in heads"));
  PERI_TRY(same(k[2], v[2], "k and v differ in positions"));
  PERI_TRY(same(q[3], k[3], "q and k differ in depth"));
  if (q[1].is_const() && k[1].is_const() && (k[1].value() == 0 || q[1].value() % k[1].value() != 0))
    return invalid("the heads of k do not divide those of q")
        .expecting("a divisor of " + q[1].text())
        .but_found(k[1].text());
  Dim keys = k[2];
  if (c.has(kPastKey)) {
    for (size_t port : {kPastKey, kPastValue})
      if (c.rank(port) != 4)
        return invalid("a past state has a wrong rank")
            .expecting("[batch, heads, places, depth]")
            .but_found(shape_text(c.shape(port)));
    for (size_t port : {kPastKey, kPastValue}) {
      PERI_TRY(same(k[0], c.shape(port)[0], "a past state and k differ in batch"));
      PERI_TRY(same(k[1], c.shape(port)[1], "a past state and k differ in heads"));
    }
    PERI_TRY(same(c.shape(kPastKey)[2], c.shape(kPastValue)[2], "past_key and past_value differ in positions"));
    PERI_TRY(same(c.shape(kPastKey)[3], k[3], "past_key and k differ in depth"));
    PERI_TRY(same(c.shape(kPastValue)[3], v[3], "past_value and v differ in depth"));
    keys = keys + c.shape(kPastKey)[2];
  }
  if (c.has(kMask)) {
    const Shape& m = c.shape(kMask);
    if (m.empty() || m.size() > 4)
      return invalid("the mask has a wrong rank").expecting("1 to 4").but_found(shape_text(m));
    for (size_t d = 0; d + 1 < m.size(); ++d)  // the mask is stretched, the scores are not
      if (const Dim& to = q[d + 4 - m.size()]; !(m[d] == Dim(1))) PERI_TRY(same(to, m[d], "the mask does not fit"));
    if (keys.is_const() && m.back().is_const() && m.back().value() > keys.value())
      return invalid("the mask is longer than the keys").expecting("at most " + keys.text()).but_found(m.back().text());
    if (c.dtype(kMask) != DType::kBool && !is_float(c.dtype(kMask)))
      return unsupported("integer masks are not supported")
          .expecting("bool or float")
          .but_found(std::string(dtype_name(c.dtype(kMask))));
  }
  c.set(1, c.dtype(kK), {k[0], k[1], keys, k[3]});
  c.set(2, c.dtype(kV), {v[0], v[1], keys, v[3]});
  c.set(3, c.dtype(kQ), {q[0], q[1], q[2], keys});
  c.set(0, c.dtype(kQ), c.rank(kQ) == 4 ? Shape{q[0], q[1], q[2], v[3]} : Shape{q[0], q[2], q[1] * v[3]});
  return Ok{};
}

// A tensor [batch, heads, places, depth], or [batch, places, heads * depth], by elements.
struct View {
  int64_t heads, places, depth, head_step, place_step;
  View(const RefTensor& t, int64_t heads_of_three) {
    const bool four = t.dims.size() == 4;
    heads = four ? t.dims[1] : heads_of_three;
    places = t.dims[four ? 2 : 1];
    depth = four ? t.dims[3] : t.dims[2] / heads;
    head_step = four ? places * depth : depth;
    place_step = four ? depth : heads * depth;
  }
  int64_t at(int64_t b, int64_t h, int64_t s) const {
    return b * heads * places * depth + h * head_step + s * place_step;
  }
};

// Past and present state one after the other, as [batch, heads, places, depth]; exact copies.
RefTensor joined(const RefTensor* past, const RefTensor& now, int64_t heads_of_three) {
  const View n(now, heads_of_three);
  const int64_t before = past ? past->dims[2] : 0, batch = now.dims[0];
  RefTensor t = make_ref(now.dtype, {batch, n.heads, before + n.places, n.depth});
  t.radius.assign(t.f.size(), 0.0);
  const View to(t, n.heads);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < n.heads; ++h) {
      for (int64_t e = 0; e < before * n.depth; ++e)
        copy_element(*past, (b * n.heads + h) * before * n.depth + e, t, to.at(b, h, 0) + e);
      for (int64_t s = 0; s < n.places; ++s)
        for (int64_t d = 0; d < n.depth; ++d) copy_element(now, n.at(b, h, s) + d, t, to.at(b, h, before + s) + d);
    }
  }
  return t;
}

// What a score meets after the product: soft cap, mask, causal and sliding windows, padding.
struct Rules {
  const RefTensor* mask = nullptr;
  const RefTensor* seen = nullptr;
  std::vector<int64_t> mask_steps;
  int64_t mask_keys = 0, past = 0, queries = 0, left = -1, right = -1, mode = 0;
  bool causal = false;
  double cap = 0, u = 0;

  bool visible(int64_t b, int64_t i, int64_t j) const {
    const int64_t offset = seen ? seen->i[static_cast<size_t>(b)] - queries : past, place = offset + i;
    if (seen && j >= seen->i[static_cast<size_t>(b)]) return false;
    if (mask && j >= mask_keys) return false;  // a shorter mask hides the rest
    return !(causal && j > place) && !(left >= 0 && j < place - left) && !(right >= 0 && j > place + right);
  }
  int64_t mask_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * mask_steps[0] + h * mask_steps[1] + i * mask_steps[2] + j * mask_steps[3];
  }
};

Rules rules_of(const RefCall& call, int64_t heads, int64_t queries) {
  auto in = [&](size_t k) { return k < call.in.size() ? call.in[k] : nullptr; };
  Rules r;
  r.mask = in(kMask);
  r.seen = in(kSeen);
  r.past = in(kPastKey) ? in(kPastKey)->dims[2] : 0;
  r.queries = queries;
  r.left = call.node.i("left_window_size", -1);
  r.right = call.node.i("right_window_size", -1);
  r.mode = call.node.i("qk_matmul_output_mode");
  r.causal = call.node.i("is_causal") != 0;
  r.cap = call.node.f("softcap");
  r.u = call.u;
  if (r.mask) {
    r.mask_keys = r.mask->dims.back();
    const std::vector<int64_t> scores = {call.in[kQ]->dims[0], heads, queries, r.mask_keys};
    r.mask_steps = broadcast_strides(r.mask->dims, scores);
  }
  return r;
}

void apply(const Rules& r, Scores& s, int64_t b, int64_t h) {
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t j = 0; j < s.keys; ++j) {
      double addend = r.visible(b, i, j) ? 0 : -std::numeric_limits<double>::infinity(), radius = 0;
      if (r.mask && addend == 0) {
        const int64_t at = r.mask_at(b, h, i, j);
        addend = r.mask->floating()                   ? r.mask->f[static_cast<size_t>(at)]
                 : r.mask->i[static_cast<size_t>(at)] ? 0
                                                      : -std::numeric_limits<double>::infinity();
        radius = r.mask->floating() ? r.mask->r(at) : 0;
      }
      if (addend != 0 || radius != 0) add_to_score(s, i, j, addend, radius, r.u);
    }
  }
}

void keep_scores(RefTensor& to, const Scores& s, int64_t image) {
  const int64_t first = image * s.rows * s.keys;
  for (size_t n = 0; n < s.value.size(); ++n) {
    to.f[static_cast<size_t>(first) + n] = s.value[n];
    to.radius[static_cast<size_t>(first) + n] = std::isfinite(s.value[n]) ? s.radius[n] : 0;
  }
}

// One head of one batch: scores, what they meet, probabilities, sums.
void head(RefCall& call, const Rules& r, const RefTensor& keys, const RefTensor& values, const View& q, const View& y,
          int64_t b, int64_t h) {
  const View k(keys, 0), v(values, 0);
  const int64_t kv = h / (q.heads / k.heads), image = b * q.heads + h;
  const double scale = call.node.f("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.depth, 1))));
  Scores s = scores_of(q.places, k.places, q.depth, side(*call.in[kQ], q.at(b, h, 0), q.place_step, 1),
                       side(keys, k.at(b, kv, 0), k.depth, 1), scale, call.u);
  RefTensor* kept = call.out.size() > 3 ? &call.out[3] : nullptr;
  if (kept && r.mode == 0) keep_scores(*kept, s, image);
  if (r.cap > 0) cap_scores(s, r.cap, call.u);
  if (kept && r.mode == 1) keep_scores(*kept, s, image);
  apply(r, s, b, h);
  if (kept && r.mode == 2) keep_scores(*kept, s, image);
  soften(s, call.u, call.stored, true);
  if (kept && r.mode == 3) keep_scores(*kept, s, image);
  dense_product(q.places, v.depth, k.places, {s.value.data(), call.u > 0 ? s.radius.data() : nullptr, k.places, 1},
                side(values, v.at(b, kv, 0), v.depth, 1), call.u, k.places, call.out[0].f.data() + y.at(b, h, 0),
                call.out[0].radius.data() + y.at(b, h, 0), y.place_step);
}

Status reference(RefCall& call) {
  const RefTensor& q = *call.in[kQ];
  auto in = [&](size_t k) { return k < call.in.size() ? call.in[k] : nullptr; };
  const int64_t kv_heads = call.node.i("kv_num_heads", 1);
  const RefTensor keys = joined(in(kPastKey), *call.in[kK], kv_heads),
                  values = joined(in(kPastValue), *call.in[kV], kv_heads);
  const View view(q, call.node.i("q_num_heads", 1)), y(call.out[0], view.heads);
  if (in(kSeen) && in(kSeen)->numel() != q.dims[0])
    return invalid("nonpad_kv_seqlen has a wrong shape")
        .expecting("one length for each of " + std::to_string(q.dims[0]))
        .but_found(std::to_string(in(kSeen)->numel()));
  const Rules rules = rules_of(call, view.heads, view.places);
  std::fill(call.out[0].f.begin(), call.out[0].f.end(), 0.0);
  std::fill(call.out[0].radius.begin(), call.out[0].radius.end(), 0.0);
  parallel_for(call.threads, q.dims[0] * view.heads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) head(call, rules, keys, values, view, y, n / view.heads, n % view.heads);
  });
  settle_radii(call.out[0], {});
  for (size_t k : {size_t{1}, size_t{2}}) {
    if (call.out.size() <= k) break;
    const RefTensor& from = k == 1 ? keys : values;
    for (int64_t n = 0; n < from.numel(); ++n) copy_element(from, n, call.out[k], n);
  }
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const auto q = by_heads(node, kQ), k = by_heads(node, kK), v = by_heads(node, kV);
  if (!q.ok() || !k.ok() || !v.ok()) return c;
  auto number = [](const Dim& d) { return static_cast<double>(d.is_const() ? d.value() : 1); };
  const double past = node.in(kPastKey) ? number((*node.in(kPastKey)->type.shape)[2]) : 0;
  c.flops = number((*q)[0]) * number((*q)[1]) * number((*q)[2]) * (number((*k)[2]) + past) *
            (2 * number((*q)[3]) + 2 * number((*v)[3]) + 5);
  return c;
}

}  // namespace

extern const Entry onnx_attention_entry;
const Entry onnx_attention_entry{{
    {.name = "onnx_attention",
     .onnx = "Attention",
     .versions = {23, 24, 25},
     .inputs = {{"q", kFloats},
                {"k", kFloats, false, false, 0},
                {"v", kFloats},
                {"attn_mask", kFloats | kBools | kInts, true},
                {"past_key", kFloats, true, false, 1},
                {"past_value", kFloats, true, false, 2},
                {"nonpad_kv_seqlen", types({DType::kI64}), true}},
     .outputs =
         {{"y"}, {"present_key", kFloats, true}, {"present_value", kFloats, true}, {"qk_matmul_output", kFloats, true}},
     .attrs = {{"is_causal", AttrKind::kInt, false, "0"},
               {"kv_num_heads", AttrKind::kInt, false, "needed with inputs of rank 3"},
               {"left_window_size", AttrKind::kInt, false, "-1: no bound"},
               {"q_num_heads", AttrKind::kInt, false, "needed with inputs of rank 3"},
               {"qk_matmul_output_mode", AttrKind::kInt, false, "0"},
               {"right_window_size", AttrKind::kInt, false, "-1: no bound"},
               {"scale", AttrKind::kFloat, false, "1 / sqrt(depth)"},
               {"softcap", AttrKind::kFloat, false, "0: none"},
               {"softmax_precision", AttrKind::kInt, false, "that of q"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .stores = "probabilities",
     .samples = {"graph { input q: f32[2,4,3,8]; input k: f32[2,2,5,8]; input v: f32[2,2,5,6]; y = onnx_attention(q, "
                 "k, v); output y }",
                 "graph { input q: f32[1,3,8]; input k: f32[1,4,8]; input v: f32[1,4,8]; const m: bool[3,3] = [1, 0, "
                 "0, 1, 1, 0, 0, 0, 0]; y = onnx_attention(q, k, v, m) {kv_num_heads=2, q_num_heads=2, softcap=2.0}; "
                 "output y }",
                 "graph { input q: f32[1,2,3,4]; input k: f32[1,2,3,4]; input v: f32[1,2,3,4]; input m: f32[1,1,3,5]; "
                 "input pk: f32[1,2,2,4]; input pv: f32[1,2,2,4]; "
                 "y, a, b, s = onnx_attention(q, k, v, m, pk, pv) {is_causal=1, left_window_size=3, "
                 "qk_matmul_output_mode=3}; output y; output a; output b; output s }",
                 "graph { input q: f32[2,2,3,4]; input k: f32[2,2,6,4]; input v: f32[2,2,6,4]; const n: i64[2] = [4, "
                 "6]; y = onnx_attention(q, k, v, _, _, _, n) {is_causal=1}; output y }"}},
}};
}  // namespace peri::ops
