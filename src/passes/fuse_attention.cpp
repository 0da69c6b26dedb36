// Pass fuse_attention: softmax(scale * q kᵀ + mask) v becomes one attention node that reads heads in their layout.
#include <cmath>
#include <limits>

#include "passes/entry.hpp"
#include "passes/rewrite/ranges.hpp"

namespace peri::passes {
namespace {

// An operand of a product seen through transposes and scalings: `word` names the axes of `v`.
struct Operand {
  ir::Value* v;
  std::string word;
  double scale = 1;
};

std::string word_of_rank(std::string_view word, size_t rank) { return std::string(word.substr(4 - rank)); }

// The factor of a multiplication or division by a scalar constant.
std::optional<WithScalar> scaling(const ir::Value* v) {
  if (!v->producer || (v->producer->op != "mul" && v->producer->op != "div")) return std::nullopt;
  auto s = with_scalar(*v->producer);
  if (!s || s->scalar == 0 || !std::isfinite(s->scalar)) return std::nullopt;
  if (v->producer->op == "div") s->scalar = 1 / s->scalar;
  return s;
}

Operand trace(ir::Value* v, std::string word, bool may_scale, bool depth_last) {
  Operand out{v, std::move(word)};
  while (true) {
    if (ir::Node* t = made_by(out.v, "transpose")) {
      const std::vector<int64_t> perm = perm_of(*t);
      std::string before(out.word.size(), '?');
      for (size_t k = 0; k < perm.size(); ++k) before[static_cast<size_t>(perm[k])] = out.word[k];
      if (depth_last && before.back() != 'd') return out;
      out.word = before;
      out.v = t->in(0);
      continue;
    }
    const auto s = may_scale ? scaling(out.v) : std::nullopt;
    if (!s) return out;
    out.scale *= s->scalar;
    out.v = s->x;
  }
}

bool is_inf(const ir::Value* v) {
  const auto s = scalar_of(v);
  return s && *s == -std::numeric_limits<double>::infinity();
}

// A mask without what broadcasting does anyway, and boolean where it was made from one.
ir::Value* plain_mask(ir::Value* m) {
  while (true) {
    ir::Node* p = m->producer;
    if (!p) return m;
    if (p->op == "expand") {
      m = p->in(0);
    } else if (p->op == "where" && scalar_of(p->in(1)) == 0.0 && is_inf(p->in(2)) && p->in(0)->type.known()) {
      m = p->in(0);
    } else {
      return m;
    }
  }
}

// A constant mask that shows key j to query i exactly if j <= i + keys - queries.
bool is_causal(const ir::Value& mask) {
  if (!mask.constant || mask.constant->rank() < 2) return false;
  const Tensor& t = *mask.constant;
  const int64_t keys = t.dims()[t.dims().size() - 1], queries = t.dims()[t.dims().size() - 2];
  if (keys == 1 || queries == 1) return false;
  for (int64_t at = 0; at < t.numel(); ++at) {
    const int64_t j = at % keys, i = at / keys % queries;
    const bool hidden = j > i + keys - queries;
    const bool good = t.dtype() == DType::kBool ? (t.i64(at) != 0) != hidden
                      : hidden                  ? t.f64(at) == -std::numeric_limits<double>::infinity()
                                                : t.f64(at) == 0;
    if (!good) return false;
  }
  return true;
}

// key <= query, as exporters compute it from ranges: the constant triangle for any length.
bool compares_places(const ir::Value* v, size_t rank, const Dim& queries, const Dim& keys) {
  const ir::Node* n = v->producer;
  if (!n || (n->op != "less_or_equal" && n->op != "greater_or_equal") || rank < 2) return false;
  const bool less = n->op == "less_or_equal";
  const auto j = counted_along(n->in(less ? 0 : 1), rank - 1, rank),
             i = counted_along(n->in(less ? 1 : 0), rank - 2, rank);
  return i && j && *i == queries && *j == keys && queries == keys;
}

// Takes a causal condition out of a boolean mask; true if there was one. What remains may be nothing.
bool take_causal(ir::Value** mask, size_t rank, const Dim& queries, const Dim& keys) {
  if (is_causal(**mask) || compares_places(*mask, rank, queries, keys)) {
    *mask = nullptr;
    return true;
  }
  const ir::Node* both = made_by(*mask, "and");
  if (!both) return false;
  for (size_t k : {0, 1}) {
    if (!compares_places(both->in(k), rank, queries, keys)) continue;
    *mask = both->in(1 - k);
    return true;
  }
  return false;
}

struct Match {
  ir::Node *scores = nullptr, *softmax = nullptr;
  ir::Value* mask = nullptr;
  double scale = 1;
  double cap = 0;  // 0: none
  bool guarded = false;
  std::vector<const ir::Node*> nodes;
};

// The probabilities: softmax over the last axis, perhaps with rows of NaN made zero.
bool read_softmax(Rewriter& w, ir::Value* p, Match* m) {
  if (!w.used_once(p)) return false;
  if (ir::Node* guard = made_by(p, "where")) {
    ir::Node* nan = made_by(guard->in(0), "is_nan");
    if (!nan || scalar_of(guard->in(1)) != 0.0 || nan->in(0) != guard->in(2) || guard->in(2)->users.size() != 2)
      return false;
    if (w.graph().is_output(guard->in(2))) return false;
    m->nodes.insert(m->nodes.end(), {guard, nan});
    m->guarded = true;
    p = guard->in(2);
  }
  m->softmax = made_by(p, "softmax");
  if (!m->softmax || wrap_axis(m->softmax->i("axis", -1), p->type.rank()) + 1 != static_cast<int64_t>(p->type.rank()))
    return false;
  m->nodes.push_back(m->softmax);
  return true;
}

// What stands between the product of q and kᵀ and the softmax: scalings, a soft cap c tanh(x / c) at most, whose two
// factors are scalings like others, then at most one mask.
bool read_scores(Rewriter& w, Match* m) {
  ir::Value* v = m->softmax->in(0);
  bool scaled = false;
  while (v->producer && w.used_once(v)) {
    ir::Node* n = v->producer;
    if (n->op == "matmul") {
      m->scores = n;
      m->nodes.push_back(n);
      return true;
    }
    if (const auto s = scaling(v)) {
      m->scale *= s->scalar;
      scaled = true;
      v = s->x;
    } else if (n->op == "tanh" && m->cap == 0 && m->scale > 0) {
      m->cap = m->scale;  // what is scaled by s / c within is then scaled by s
      scaled = true;      // a mask within is no mask
      v = n->in(0);
    } else if (n->op == "add" && !m->mask && !scaled) {
      ir::Value* const first = n->in(0);
      const size_t k = made_by(first, "matmul") || made_by(first, "tanh") || scaling(first) ? 0 : 1;
      if (!same_shape(n->in(k), n->out())) return false;
      m->mask = plain_mask(n->in(1 - k));
      v = n->in(k);
    } else if (n->op == "where" && !m->mask && !scaled && is_inf(n->in(2)) && same_shape(n->in(1), n->out())) {
      m->mask = n->in(0);
      v = n->in(1);
    } else {
      return false;
    }
    m->nodes.push_back(n);
  }
  return false;
}

// Batch and heads of q, k and v agree; fewer heads in k and v only as one that all share.
bool fits(const ir::Value* q, const ir::Value* k, const ir::Value* v) {
  const Shape &a = *q->type.shape, &b = *k->type.shape, &c = *v->type.shape;
  if (a.size() < 2 || a.size() > 4 || b.size() != a.size() || c.size() != a.size()) return false;
  for (size_t d = 0; d + 2 < a.size(); ++d) {
    const bool heads = d + 3 == a.size();
    if (!(b[d] == c[d]) || !(a[d] == b[d] || (heads && b[d].is_const(1)))) return false;
  }
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* product) {
  if (product->op != "matmul") return false;
  Match m;
  m.nodes.push_back(product);
  if (!read_softmax(w, product->in(0), &m) || !read_scores(w, &m)) return false;
  ir::Value *q = m.scores->in(0), *k = m.scores->in(1), *v = product->in(1);
  const DType t = q->type.dtype;
  if (!ops::contains(ops::kFloats, t) || !fits(q, k, v)) return false;
  const size_t rank = q->type.rank();
  if (m.mask && m.mask->type.rank() > rank) return false;
  const Operand from_q = trace(q, word_of_rank("bhsd", rank), true, false),
                from_k = trace(k, word_of_rank("bhds", rank), true, false),
                from_v = trace(v, word_of_rank("bhsd", rank), false, true);
  std::string word = word_of_rank("bhsd", rank);
  std::vector<int64_t> rest;  // what of the result's transpose stays behind the node
  ir::Value* y = product->out();
  if (w.used_once(y) && y->users[0]->op == "transpose") {
    const std::vector<int64_t> perm = perm_of(*y->users[0]);
    std::string after;
    for (int64_t axis : perm) after += word[static_cast<size_t>(axis)];
    if (after.back() == 'd') {
      word = after == "sbhd" ? "bshd" : after;
      if (after == "sbhd") rest = {1, 0, 2, 3};  // a batch that comes first lets it move on
      m.nodes.push_back(y->users[0]);
      y = y->users[0]->out();
    }
  }
  ir::Attrs attrs;
  auto layout = [&](const char* key, const std::string& value) {
    if (value != "bhsd") attrs[key] = value;
  };
  layout("q_layout", from_q.word);
  layout("k_layout", from_k.word);
  layout("v_layout", from_v.word);
  layout("y_layout", word);
  attrs["scale"] = m.scale * from_q.scale * from_k.scale;
  if (m.cap > 0) attrs["softcap"] = m.cap;
  if (m.guarded) attrs["zero_hidden_rows"] = int64_t{1};
  const Shape& scores = *m.scores->out()->type.shape;
  if (m.mask && take_causal(&m.mask, rank, scores[rank - 2], scores[rank - 1])) attrs["causal"] = int64_t{1};
  std::vector<ir::Value*> inputs = {from_q.v, from_k.v, from_v.v};
  if (m.mask) inputs.push_back(m.mask);
  w.standing_for(m.nodes);
  PERI_ASSIGN(ir::Value * fused, w.make("attention", std::move(inputs), std::move(attrs), y));
  if (!rest.empty()) {
    PERI_ASSIGN(fused, w.transpose(fused, rest, y));
  }
  w.replace(y, fused);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fuse_attention", rule); }

}  // namespace

extern const Entry fuse_attention_entry;
const Entry fuse_attention_entry{{
    .name = "fuse_attention",
    .contract =
        "Every softmax(scale * q kᵀ + mask) v whose scores nobody else reads is one attention node. Transposes of q, "
        "k, v and of "
        "the result go into its layouts, scalings of q, k and scores into its scale, c * tanh(scores / c) before the "
        "mask into its softcap, zeros for rows of NaN into "
        "zero_hidden_rows, where(b, 0, -inf) into a boolean mask, triangles (constant, or computed as key <= query) "
        "into causal. It stands after the clean-up "
        "of transposes, so that heads are split by reshapes alone, and before other fusions may take its softmax.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"heads of BERT",
          "graph { input x: f32[batch,seq,32]; input m: f32[batch,1,1,seq]; const w: f32[32,32] = seeded(0.3, 1); "
          "const c: f32[] = "
          "[0.25]; s = dims_constant() {value=dims[batch,seq,2,16]}; p = matmul(x, w); q3 = reshape(x, s); q = "
          "transpose(q3) "
          "{perm=[0, 2, 1, 3]}; k3 = reshape(p, s); k = transpose(k3) {perm=[0, 2, 3, 1]}; v3 = reshape(x, s); v = "
          "transpose(v3) {perm=[0, 2, 1, 3]}; a = matmul(q, k); b = mul(a, c); d = add(b, m); e = softmax(d) "
          "{axis=-1}; f = "
          "matmul(e, v); g = transpose(f) {perm=[0, 2, 1, 3]}; output g }",
          "graph { input x: f32[batch,seq,32]; input m: f32[batch,1,1,seq]; const w: f32[32,32] = seeded(0.3, 1); s = "
          "dims_constant() {value=dims[batch,seq,2,16]}; p = matmul(x, w); q3 = reshape(x, s); k3 = reshape(p, s); v3 "
          "= "
          "reshape(x, s); g = attention(q3, k3, v3, m) {k_layout=\"bshd\", q_layout=\"bshd\", scale=0.25, "
          "v_layout=\"bshd\", "
          "y_layout=\"bshd\"}; output g }"},
         {"both sides scaled, guarded",
          "graph { input q: f32[2,3,4,8]; input k: f32[2,3,8,5]; input v: f32[2,3,5,8]; input m: bool[2,1,4,5]; const "
          "h: f32[1] = "
          "[0.5]; const o: f32[1] = [0.0]; const i: f32[1] = [-inf]; a = mul(q, h); b = mul(k, h); s = matmul(a, b); w "
          "= "
          "where(m, o, i); d = add(s, w); e = softmax(d) {axis=3}; n = is_nan(e); z = where(n, o, e); y = matmul(z, "
          "v); output "
          "y }",
          "graph { input q: f32[2,3,4,8]; input k: f32[2,3,8,5]; input v: f32[2,3,5,8]; input m: bool[2,1,4,5]; y = "
          "attention(q, k, v, m) {k_layout=\"bhds\", scale=0.25, zero_hidden_rows=1}; output y }"},
         {"a soft cap before the mask",
          "graph { input q: f32[2,3,4,8]; input k: f32[2,3,8,5]; input v: f32[2,3,5,8]; input m: f32[2,1,4,5]; const "
          "h: f32[] = [0.5]; const c: f32[] = [2.0]; s = matmul(q, k); a = mul(s, h); b = div(a, c); t = tanh(b); x = "
          "mul(t, c); d = add(x, m); e = softmax(d) {axis=3}; y = matmul(e, v); output y }",
          "graph { input q: f32[2,3,4,8]; input k: f32[2,3,8,5]; input v: f32[2,3,5,8]; input m: f32[2,1,4,5]; y = "
          "attention(q, k, v, m) {k_layout=\"bhds\", scale=0.5, softcap=2.0}; output y }"},
         {"what a tanh bounds together with its mask stays",
          "graph { input q: f32[3,4,8]; input k: f32[3,8,5]; input v: f32[3,5,8]; input m: f32[4,5]; s = matmul(q, k); "
          "a = add(s, m); t = tanh(a); e = softmax(t) {axis=2}; y = matmul(e, v); output y }",
          "graph { input q: f32[3,4,8]; input k: f32[3,8,5]; input v: f32[3,5,8]; input m: f32[4,5]; s = matmul(q, k); "
          "a = add(s, m); t = tanh(a); e = softmax(t) {axis=2}; y = matmul(e, v); output y }"},
         {"scores that are read elsewhere stay",
          "graph { input q: f32[3,4,8]; input k: f32[3,8,5]; input v: f32[3,5,8]; s = matmul(q, k); e = softmax(s) "
          "{axis=2}; y = "
          "matmul(e, v); output y; output e }",
          "graph { input q: f32[3,4,8]; input k: f32[3,8,5]; input v: f32[3,5,8]; s = matmul(q, k); e = softmax(s) "
          "{axis=2}; y = "
          "matmul(e, v); output y; output e }"},
         {"a computed triangle and hidden keys",
          "graph { input q: f32[2,3,s,8]; input k: f32[2,3,8,s]; input v: f32[2,3,s,8]; input h: bool[2,1,1,s]; const "
          "z: i64[] = [0]; "
          "const o: i64[] = [1]; const u: i64[3] = [0, 1, 3]; const t: i64[3] = [0, 1, 2]; const zero: f32[] = [0.0]; "
          "const inf: f32[] = "
          "[-inf]; n = dims_constant() {scalar=1, value=dims[s]}; r = range(z, n, o); i = unsqueeze(r, u); j = "
          "unsqueeze(r, t); c = "
          "less_or_equal(j, i); m = and(c, h); w = where(m, zero, inf); a = matmul(q, k); d = add(a, w); e = "
          "softmax(d); x = is_nan(e); "
          "p = where(x, zero, e); y = matmul(p, v); output y }",
          "graph { input q: f32[2,3,s,8]; input k: f32[2,3,8,s]; input v: f32[2,3,s,8]; input h: bool[2,1,1,s]; y = "
          "attention(q, k, v, h) "
          "{causal=1, k_layout=\"bhds\", scale=1.0, zero_hidden_rows=1}; output y }"},
         {"a constant triangle",
          "graph { input q: f32[3,2,8]; input k: f32[3,8,2]; input v: f32[3,2,8]; const m: f32[2,2] = [0.0, -inf, 0.0, "
          "0.0]; s = "
          "matmul(q, k); d = add(s, m); e = softmax(d); y = matmul(e, v); output y }",
          "graph { input q: f32[3,2,8]; input k: f32[3,8,2]; input v: f32[3,2,8]; y = attention(q, k, v) {causal=1, "
          "k_layout=\"hds\", q_layout=\"hsd\", scale=1.0, v_layout=\"hsd\", y_layout=\"hsd\"}; output y }"}},
}};

}  // namespace peri::passes
