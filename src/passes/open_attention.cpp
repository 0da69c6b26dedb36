// Pass open_attention: ONNX's Attention in its plain form becomes the op attention, after appending to the caches.
#include <limits>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {
enum Port { kQ, kK, kV, kMask, kPastKey, kPastValue, kSeen };

ir::Value* result(ir::Node* n, size_t k) { return k < n->outputs.size() ? n->outputs[k] : nullptr; }
bool is_read(Rewriter& w, ir::Node* n, size_t k) {
  const ir::Value* v = result(n, k);
  return v && (!v->users.empty() || w.graph().is_output(v));
}

bool plain(Rewriter& w, ir::Node* n) {
  if (n->in(kSeen) || is_read(w, n, 3)) return false;
  if (n->i("left_window_size", -1) >= 0 || n->i("right_window_size", -1) >= 0) return false;
  if (const int64_t precision = n->i("softmax_precision", 1); precision != 1) return false;
  const size_t rank = n->in(kQ)->type.rank();
  const DType type = n->in(kQ)->type.dtype;
  for (const size_t port : {kQ, kK, kV}) {
    const ir::Type& t = n->in(port)->type;
    if (t.rank() != rank || t.dtype != type || !w.sized_by_inputs(*t.shape)) return false;
  }
  if (const ir::Value* past = n->in(kPastKey); past && past->type.dtype != type) return false;
  if (const ir::Value* past = n->in(kPastValue); past && past->type.dtype != type) return false;
  return result(n, 0) && w.sized_by_inputs(*result(n, 0)->type.shape);
}

// q, k or v as [batch, places, heads, depth] where it has three dimensions.
Result<ir::Value*> by_heads(Rewriter& w, ir::Node* n, size_t port) {
  ir::Value* x = n->in(port);
  if (x->type.rank() == 4) return x;
  const Shape& s = *x->type.shape;
  const int64_t heads = n->i(port == kQ ? "q_num_heads" : "kv_num_heads");
  return w.reshape(x, {s[0], s[1], Dim(heads), floordiv(s[2], Dim(heads))}, x);
}

// The past and what is new, as [batch, heads, places, depth].
Result<ir::Value*> joined(Rewriter& w, ir::Node* n, ir::Value* now, size_t past, size_t present) {
  if (n->in(kQ)->type.rank() == 3) {
    PERI_ASSIGN(now, w.transpose(now, {0, 2, 1, 3}, now));
  }
  if (n->in(past)) {
    PERI_ASSIGN(now, w.make("concat", {n->in(past), now}, {{"axis", int64_t{2}}}, now));
  }
  if (is_read(w, n, present)) w.replace(result(n, present), now);
  return now;
}

Dim places(const ir::Node* n, size_t port) {
  const Shape& s = *n->in(port)->type.shape;
  return s[s.size() == 3 ? 1 : 2];
}

// The keys before the first query's own.
Dim past_of(const ir::Node* n) { return n->in(kPastKey) ? (*n->in(kPastKey)->type.shape)[2] : Dim(0); }

Dim keys_of(const ir::Node* n) { return past_of(n) + places(n, kK); }

// A past and a mask of known sizes.
bool fits(Rewriter& w, ir::Node* n) {
  if (n->i("is_causal") != 0 && !w.sized_by_inputs({past_of(n)})) return false;
  const ir::Value* mask = n->in(kMask);
  if (!mask) return true;
  return mask->type.known() && mask->type.rank() > 0 && w.sized_by_inputs({keys_of(n) - mask->type.shape->back()}) &&
         (mask->type.dtype == DType::kBool || mask->type.dtype == n->in(kQ)->type.dtype);
}

// The mask for all keys: it hides those that it does not name.
Result<ir::Value*> whole_mask(Rewriter& w, ir::Node* n) {
  ir::Value* mask = n->in(kMask);
  const Dim more = keys_of(n) - mask->type.shape->back();
  if (more.is_const(0)) return mask;
  std::vector<Dim> pads(2 * mask->type.rank(), Dim(0));
  pads.back() = more;
  PERI_ASSIGN(ir::Value * ends, w.make("dims_constant", {}, {{"value", std::move(pads)}}, nullptr));
  const double hidden = mask->type.dtype == DType::kBool ? 0 : -std::numeric_limits<double>::infinity();
  return w.make("pad", {mask, ends, w.scalar(mask->type.dtype, hidden, "hidden")}, {}, mask);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "onnx_attention" || !plain(w, n) || !fits(w, n)) return false;
  w.standing_for({n});
  const bool three = n->in(kQ)->type.rank() == 3;
  const bool keeps = n->in(kPastKey) || is_read(w, n, 1) || is_read(w, n, 2);
  PERI_ASSIGN(ir::Value * q, by_heads(w, n, kQ));
  PERI_ASSIGN(ir::Value * k, by_heads(w, n, kK));
  PERI_ASSIGN(ir::Value * v, by_heads(w, n, kV));
  if (keeps) {
    PERI_ASSIGN(k, joined(w, n, k, kPastKey, 1));
    PERI_ASSIGN(v, joined(w, n, v, kPastValue, 2));
  }
  ir::Attrs attrs;
  if (three) attrs["q_layout"] = attrs["y_layout"] = std::string("bshd");
  if (three && !keeps) attrs["k_layout"] = attrs["v_layout"] = std::string("bshd");
  if (n->has("scale")) attrs["scale"] = n->f("scale");
  if (n->i("is_causal") != 0) {
    attrs["causal"] = int64_t{1};
    if (!(places(n, kQ) == places(n, kK))) attrs["past"] = std::vector<Dim>{past_of(n)};
  }
  if (const double cap = n->f("softcap"); cap > 0) attrs["softcap"] = cap;
  std::vector<ir::Value*> inputs = {q, k, v};
  if (n->in(kMask)) {
    PERI_ASSIGN(ir::Value * mask, whole_mask(w, n));
    inputs.push_back(mask);
    attrs["zero_hidden_rows"] = int64_t{1};
  }
  ir::Value* y = result(n, 0);
  PERI_ASSIGN(ir::Value * made, w.make("attention", std::move(inputs), std::move(attrs), y));
  PERI_ASSIGN(made, w.reshape(made, *y->type.shape, y));
  w.replace(y, made);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_attention", rule); }

}  // namespace

extern const Entry open_attention_entry;
const Entry open_attention_entry{{
    .name = "open_attention",
    .contract =
        "Every onnx_attention without windows, padded keys or scores as a result is an attention; of caches the "
        "new places stand behind the past, as a concat, and a mask that may be shorter than the keys is padded.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"heads side by side, a mask",
          "graph { input q: f32[2,5,8]; input k: f32[2,6,4]; input v: f32[2,6,4]; input m: bool[5,6]; y = "
          "onnx_attention(q, k, v, m) {q_num_heads=4, kv_num_heads=2}; output y }",
          "graph { input q: f32[2,5,8]; input k: f32[2,6,4]; input v: f32[2,6,4]; input m: bool[5,6]; const s: i64[4] "
          "= [2, 5, 4, 2]; a = reshape(q, s); const t: i64[4] = [2, 6, 2, 2]; const t2: i64[4] = [2, 6, 2, 2]; b = "
          "reshape(k, t); c = reshape(v, t2); d "
          "= attention(a, b, c, m) {k_layout=\"bshd\", q_layout=\"bshd\", v_layout=\"bshd\", y_layout=\"bshd\", "
          "zero_hidden_rows=1}; const u: i64[3] = [2, 5, 8]; y = reshape(d, u); output y }"},
         {"a cache",
          "graph { input q: f32[1,2,3,4]; input k: f32[1,2,3,4]; input v: f32[1,2,3,4]; input p: f32[1,2,5,4]; input "
          "r: f32[1,2,5,4]; y, a, b = onnx_attention(q, k, v, _, p, r) {is_causal=1}; output y; output a; output b }",
          "graph { input q: f32[1,2,3,4]; input k: f32[1,2,3,4]; input v: f32[1,2,3,4]; input p: f32[1,2,5,4]; input "
          "r: f32[1,2,5,4]; a = concat(p, k) {axis=2}; b = concat(r, v) {axis=2}; y = attention(q, a, b) {causal=1}; "
          "output y; output a; output b }"},
         {"a triangle over other keys than the queries",
          "graph { input q: f32[1,2,Q,4]; input k: f32[1,2,K,4]; y = onnx_attention(q, k, k) {is_causal=1}; output y }",
          "graph { input q: f32[1,2,Q,4]; input k: f32[1,2,K,4]; y = attention(q, k, k) {causal=1, past=dims[0]}; "
          "output y }"},
         {"a triangle behind a past over other new keys than the queries",
          "graph { input q: f32[1,2,Q,4]; input k: f32[1,2,K,4]; input p: f32[1,2,P,4]; y = onnx_attention(q, k, k, _, "
          "p, p) {is_causal=1}; output y }",
          "graph { input q: f32[1,2,Q,4]; input k: f32[1,2,K,4]; input p: f32[1,2,P,4]; a = concat(p, k) {axis=2}; b = "
          "concat(p, k) {axis=2}; y = attention(q, a, b) {causal=1, past=dims[P]}; output y }"},
         {"a mask that may be shorter than the keys",
          "graph { input q: f32[1,2,3,4]; input m: f32[3,t]; y = onnx_attention(q, q, q, m); output y }",
          "graph { input q: f32[1,2,3,4]; input m: f32[3,t]; const h: f32[] = [-inf]; e = dims_constant() "
          "{value=dims[0,0,0,-t + 3]}; a = pad(m, e, h); y = attention(q, q, q, a) {zero_hidden_rows=1}; output y }"},
         {"a soft cap", "graph { input q: f32[1,2,3,4]; y = onnx_attention(q, q, q) {softcap=2.0}; output y }",
          "graph { input q: f32[1,2,3,4]; y = attention(q, q, q) {softcap=2.0}; output y }"},
         {"a window stays",
          "graph { input q: f32[1,2,3,4]; y = onnx_attention(q, q, q) {left_window_size=1}; output y }",
          "graph { input q: f32[1,2,3,4]; y = onnx_attention(q, q, q) {left_window_size=1}; output y }"}},
}};

}  // namespace peri::passes
