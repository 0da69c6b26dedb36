// Pass fuse_layer_norm: means and roots that normalise rows become one layer_normalization or rms_normalization.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// x of reduce_mean(x) over the axes from `first` to the last, kept as ones.
struct Mean {
  ir::Value* x;
  int64_t first;
};
std::optional<Mean> mean_of(const ir::Value* v) {
  const ir::Node* n = made_by(v, "reduce_mean");
  if (!n || n->i("keepdims", 1) == 0 || !n->in(1)) return std::nullopt;
  auto axes = numbers_of(n->in(1));
  const size_t rank = n->in(0)->type.rank();
  if (!axes || axes->empty()) return std::nullopt;
  for (int64_t& a : *axes) a = wrap_axis(a, rank);
  std::sort(axes->begin(), axes->end());
  for (size_t k = 0; k < axes->size(); ++k)
    if ((*axes)[k] != static_cast<int64_t>(rank - axes->size() + k)) return std::nullopt;
  return Mean{n->in(0), (*axes)[0]};
}

ir::Value* squared(const ir::Value* v) {
  if (ir::Node* m = made_by(v, "mul"); m && m->in(0) == m->in(1)) return m->in(0);
  ir::Node* p = made_by(v, "pow");
  return p && scalar_of(p->in(1)) == 2.0 && same_shape(p->in(0), v) ? p->in(0) : nullptr;
}

// z of sqrt(z).
ir::Value* rooted(const ir::Value* v) {
  if (ir::Node* s = made_by(v, "sqrt")) return s->in(0);
  ir::Node* p = made_by(v, "pow");
  return p && scalar_of(p->in(1)) == 0.5 && same_shape(p->in(0), v) ? p->in(0) : nullptr;
}
// z of 1 / sqrt(z).
ir::Value* inverse_rooted(const ir::Value* v) {
  if (ir::Node* r = made_by(v, "reciprocal")) return rooted(r->in(0));
  if (ir::Node* d = made_by(v, "div"); d && scalar_of(d->in(0)) == 1.0 && same_shape(d->in(1), v))
    return rooted(d->in(1));
  ir::Node* p = made_by(v, "pow");
  return p && scalar_of(p->in(1)) == -0.5 && same_shape(p->in(0), v) ? p->in(0) : nullptr;
}

// t / sqrt(mean(t²) + epsilon)
struct Normal {
  ir::Value* t = nullptr;
  int64_t first = 0;
  double epsilon = 0;
};
std::optional<Normal> read_normal(const ir::Node& n) {
  for (size_t k : {0, 1}) {
    if (n.op != "mul" && (n.op != "div" || k == 1)) break;
    const ir::Value* z = n.op == "div" ? rooted(n.in(1)) : inverse_rooted(n.in(1 - k));
    if (!z || !made_by(z, "add")) continue;
    const auto sum = with_scalar(*z->producer);
    const auto mean = sum ? mean_of(sum->x) : std::nullopt;
    if (mean && squared(mean->x) == n.in(k) && same_shape(n.in(k), n.out()))
      return Normal{n.in(k), mean->first, sum->scalar};
  }
  return std::nullopt;
}

// The constant by which the only user of `y` multiplies it, or which it adds; null otherwise.
ir::Value* next_constant(const Rewriter& w, const ir::Value* y, std::string_view op, size_t tail) {
  if (!w.used_once(y) || y->users[0]->op != op) return nullptr;
  const ir::Node& u = *y->users[0];
  ir::Value* c = u.in(0) == y ? u.in(1) : u.in(0);
  return c->constant && c->type.rank() <= tail && same_shape(y, u.out()) ? c : nullptr;
}

// A constant over exactly the normalised axes.
ir::Value* spread(Rewriter& w, const ir::Value* c, const std::vector<int64_t>& dims, DType dtype) {
  if (c && c->constant->dims() == dims) return const_cast<ir::Value*>(c);
  if (c && c->constant->numel() != 1) return nullptr;
  auto t = Tensor::zeros(dtype, dims);
  if (!t.ok()) return nullptr;
  const double value = c ? c->constant->f64(0) : 1;
  for (int64_t k = 0; k < t->numel(); ++k) t->set_f64(k, value);
  return w.graph().add_constant(c ? c->name : "ones", std::move(t).value());
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  const auto norm = read_normal(*n);
  if (!norm) return false;
  ir::Value *x = norm->t, *y = n->out();
  const ir::Node* centred = made_by(x, "sub");
  const auto mean = centred ? mean_of(centred->in(1)) : std::nullopt;
  const bool layer = mean && mean->x == centred->in(0) && mean->first == norm->first;
  if (layer) x = mean->x;
  std::vector<int64_t> dims;
  for (size_t k = static_cast<size_t>(norm->first); k < y->type.rank(); ++k) {
    if (!(*y->type.shape)[k].is_const()) return false;
    dims.push_back((*y->type.shape)[k].value());
  }
  std::vector<const ir::Node*> nodes = {n};
  auto take = [&](std::string_view op) -> ir::Value* {
    ir::Value* c = next_constant(w, y, op, dims.size());
    ir::Value* wide = c ? spread(w, c, dims, y->type.dtype) : nullptr;
    if (!wide) return nullptr;
    nodes.push_back(y->users[0]);
    y = y->users[0]->out();
    return wide;
  };
  ir::Value* scale = take("mul");
  ir::Value* bias = layer ? take("add") : nullptr;
  std::vector<ir::Value*> inputs = {x, scale ? scale : spread(w, nullptr, dims, y->type.dtype)};
  if (!inputs[1]) return false;
  if (bias) inputs.push_back(bias);
  w.standing_for(nodes);
  ir::Attrs attrs;
  attrs["axis"] = norm->first;
  attrs["epsilon"] = norm->epsilon;
  PERI_ASSIGN(ir::Value * fused,
              w.make(layer ? "layer_normalization" : "rms_normalization", std::move(inputs), std::move(attrs), y));
  w.replace(y, fused);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fuse_layer_norm", rule); }

}  // namespace

extern const Entry fuse_layer_norm_entry;
const Entry fuse_layer_norm_entry{{
    .name = "fuse_layer_norm",
    .contract = "Every (x - mean) / sqrt(variance + e) over trailing axes of known size, with the constant scale and "
                "bias behind it, is one "
                "layer_normalization; without the mean it is one rms_normalization.",
    .follows = {"fold_constants", "eliminate_duplicates"},
    .run = run,
    .examples =
        {{"as PyTorch writes it",
          "graph { input x: f32[batch,3,4]; const a: i64[1] = [-1]; const p: f32[] = [2.0]; const e: f32[] = [1e-5]; "
          "const g: f32[4] = "
          "seeded(1.0, 1); const b: f32[4] = seeded(1.0, 2); m = reduce_mean(x, a); d = sub(x, m); s = pow(d, p); v = "
          "reduce_mean(s, "
          "a); u = add(v, e); r = sqrt(u); n = div(d, r); h = mul(n, g); y = add(h, b); output y }",
          "graph { input x: f32[batch,3,4]; const g: f32[4] = seeded(1.0, 1); const b: f32[4] = seeded(1.0, 2); y = "
          "layer_normalization(x, g, b) {axis=2, epsilon=9.999999747378752e-06}; output y }"},
         {"without scale, over two axes",
          "graph { input x: f32[2,3,2]; const a: i64[2] = [2, 1]; const e: f32[] = [0.5]; m = reduce_mean(x, a); d = "
          "sub(x, m); s = mul(d, "
          "d); v = reduce_mean(s, a); u = add(e, v); r = sqrt(u); q = reciprocal(r); y = mul(q, d); output y }",
          "graph { input x: f32[2,3,2]; const g: f32[3,2] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]; y = layer_normalization(x, "
          "g) {axis=1, "
          "epsilon=0.5}; output y }"},
         {"root mean square",
          "graph { input x: f32[2,4]; const a: i64[1] = [-1]; const e: f32[] = [0.25]; const g: f32[4] = seeded(1.0, "
          "1); const o: f32[] = "
          "[1.0]; s = mul(x, x); v = reduce_mean(s, a); u = add(v, e); r = sqrt(u); i = div(o, r); n = mul(x, i); y = "
          "mul(g, n); "
          "output y }",
          "graph { input x: f32[2,4]; const g: f32[4] = seeded(1.0, 1); y = rms_normalization(x, g) {axis=1, "
          "epsilon=0.25}; output y }"},
         {"over another axis it stays",
          "graph { input x: f32[2,4,3]; const a: i64[1] = [1]; const e: f32[] = [0.25]; s = mul(x, x); v = "
          "reduce_mean(s, a); u = add(v, "
          "e); r = sqrt(u); y = div(x, r); output y }",
          "graph { input x: f32[2,4,3]; const a: i64[1] = [1]; const e: f32[] = [0.25]; s = mul(x, x); v = "
          "reduce_mean(s, a); u = add(v, "
          "e); r = sqrt(u); y = div(x, r); output y }"}},
}};

}  // namespace peri::passes
