// Pass fuse_gelu: x/2 (1 + erf(x/√2)) and its tanh form, in any order of factors, become one gelu.
#include <algorithm>
#include <cmath>

#include "passes/entry.hpp"
#include "passes/rewrite/factors.hpp"

namespace peri::passes {
namespace {

// How far a constant may be from the definition's: what float32 files hold is exact enough but for float64.
double slack(const ir::Value* x) { return x->type.dtype == DType::kF64 ? 1e-14 : 1e-5; }

// Whether `found` is a constant of the definition: to this tolerance or, in a 16-bit type, equal to it or its
// reciprocal rounded to that type. Another number of the type is another constant.
bool stands_for(double found, double want, const ir::Value* x) {
  const DType t = x->type.dtype;
  if (near(found, want, slack(x))) return true;
  if (t != DType::kF16 && t != DType::kBF16) return false;
  return near(found, round_to(t, want), 1e-9) || near(found, 1 / round_to(t, 1 / want), 1e-9);
}

// x³ as pow or as products.
bool is_cube(const Rewriter& w, ir::Value* v, const ir::Value* x) {
  if (ir::Node* p = made_by(v, "pow")) return p->in(0) == x && is_scalar(p->in(1), 3, 0) && same_shape(x, v);
  const Product p = product_of(w, v);
  if (p.scalar != 1) return false;
  size_t count = 0;
  for (ir::Value* f : p.factors) {
    ir::Node* square = made_by(f, "pow");
    if (f == x) {
      count += 1;
    } else if (square && square->in(0) == x && is_scalar(square->in(1), 2, 0)) {
      count += 2;
    } else if (ir::Node* m = made_by(f, "mul"); m && m->in(0) == x && m->in(1) == x) {
      count += 2;
    } else {
      return false;
    }
  }
  return count == 3;
}

// v = √(2/π) (x + 0.044715 x³)
bool is_tanh_argument(const Rewriter& w, ir::Value* v, const ir::Value* x) {
  const Product p = product_of(w, v);
  const double lead = std::sqrt(2 / M_PI);
  if (p.factors.size() != 1 || !stands_for(p.scalar, lead, x)) return false;
  ir::Node* sum = made_by(p.factors[0], "add");
  if (!sum) return false;
  for (size_t k : {0, 1}) {
    if (sum->in(k) != x) continue;
    const Product cube = product_of(w, sum->in(1 - k));
    if (!stands_for(cube.scalar, 0.044715, x)) return false;
    if (cube.factors.size() == 1) return is_cube(w, cube.factors[0], x);
    for (ir::Value* f : cube.factors)
      if (f != x && !(made_by(f, "mul") && f->producer->in(0) == x && f->producer->in(1) == x)) return false;
    size_t count = 0;
    for (ir::Value* f : cube.factors) count += f == x ? 1 : 2;
    return count == 3;
  }
  return false;
}

// 1 + f(x) times a scalar: which form of gelu has this gate.
const char* form_of(const Rewriter& w, ir::Value* gate, const ir::Value* x, double scalar) {
  const Affine a = affine_of(w, gate);
  if (a.slope != a.offset || !near(a.slope * scalar, 0.5, std::min(slack(x), 1e-6))) return nullptr;
  if (ir::Node* erf = made_by(a.x, "erf")) {
    const Product arg = product_of(w, erf->in(0));
    return arg.factors.size() == 1 && arg.factors[0] == x && stands_for(arg.scalar, std::sqrt(0.5), x) ? "none"
                                                                                                       : nullptr;
  }
  if (ir::Node* tanh = made_by(a.x, "tanh")) return is_tanh_argument(w, tanh->in(0), x) ? "tanh" : nullptr;
  return nullptr;
}

// Every node from `y` up to `x`, for origins.
void gather(const ir::Value* v, const ir::Value* x, std::vector<const ir::Node*>* out) {
  if (v == x || !v->producer || std::find(out->begin(), out->end(), v->producer) != out->end()) return;
  out->push_back(v->producer);
  for (const ir::Value* in : v->producer->inputs)
    if (in) gather(in, x, out);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "mul" && n->op != "div") return false;
  const Product p = product_of(w, n->out());
  if (p.factors.size() != 2) return false;
  for (size_t k : {0, 1}) {
    ir::Value *gate = p.factors[k], *x = p.factors[1 - k];
    if (const char* form = form_of(w, gate, x, p.scalar)) {
      std::vector<const ir::Node*> nodes;
      gather(n->out(), x, &nodes);
      w.standing_for(nodes);
      PERI_ASSIGN(ir::Value * y, w.make("gelu", {x}, {{"approximate", std::string(form)}}, n->out()));
      w.replace(n->out(), y);
      return true;
    }
  }
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fuse_gelu", rule); }

}  // namespace

extern const Entry fuse_gelu_entry;
const Entry fuse_gelu_entry{{
    .name = "fuse_gelu",
    .contract =
        "Every x/2 (1 + erf(x/√2)) and x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), however associated, is one gelu. "
        "Constants may differ from those of the definition by 1e-5, in float64 by 1e-14; in 16 bits they are those, "
        "rounded. It stands after folding, which makes its constants visible.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"erf, as BERT writes it",
                  "graph { input x: f32[2,9]; const r: f32[] = [1.4142135]; const o: f32[] = [1.0]; const h: f32[] = "
                  "[0.5]; a = div(x, "
                  "r); b = erf(a); c = add(b, o); d = mul(x, c); y = mul(d, h); output y }",
                  "graph { input x: f32[2,9]; y = gelu(x) {approximate=\"none\"}; output y }"},
                 {"erf, halved first",
                  "graph { input x: f32[2,9]; const r: f32[] = [0.70710677]; const h: f32[] = [0.5]; a = mul(r, x); b "
                  "= erf(a); c = "
                  "mul(b, h); d = add(h, c); y = mul(d, x); output y }",
                  "graph { input x: f32[2,9]; y = gelu(x) {approximate=\"none\"}; output y }"},
                 {"tanh, as GPT-2 writes it",
                  "graph { input x: f32[2,9]; const h: f32[] = [0.5]; const t: f32[] = [3.0]; const c: f32[] = "
                  "[0.044715]; const r: f32[] "
                  "= [0.7978846]; const o: f32[] = [1.0]; a = mul(x, h); b = pow(x, t); d = mul(b, c); e = add(x, d); "
                  "f = mul(e, r); g "
                  "= tanh(f); i = add(g, o); y = mul(a, i); output y }",
                  "graph { input x: f32[2,9]; y = gelu(x) {approximate=\"tanh\"}; output y }"},
                 {"tanh with products",
                  "graph { input x: f32[2,9]; const h: f32[] = [0.5]; const c: f32[] = [0.044715]; const r: f32[] = "
                  "[0.7978846]; const o: "
                  "f32[] = [1.0]; b = mul(x, x); d = mul(b, x); d2 = mul(c, d); e = add(d2, x); f = mul(e, r); g = "
                  "tanh(f); i = add(g, "
                  "o); j = mul(x, i); y = mul(h, j); output y }",
                  "graph { input x: f32[2,9]; y = gelu(x) {approximate=\"tanh\"}; output y }"},
                 {"another constant stays",
                  "graph { input x: f32[2,9]; const r: f32[] = [1.5]; const o: f32[] = [1.0]; const h: f32[] = [0.5]; "
                  "a = div(x, r); b = "
                  "erf(a); c = add(b, o); d = mul(x, c); y = mul(d, h); output y }",
                  "graph { input x: f32[2,9]; const r: f32[] = [1.5]; const o: f32[] = [1.0]; const h: f32[] = [0.5]; "
                  "a = div(x, r); b = "
                  "erf(a); c = add(b, o); d = mul(x, c); y = mul(d, h); output y }"}},
}};

}  // namespace peri::passes
