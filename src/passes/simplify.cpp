// Pass simplify: removes nodes without an effect, and replaces expensive nodes by cheaper equivalents.
#include <algorithm>
#include <cmath>

#include "passes/entry.hpp"
#include "passes/rewrite/views.hpp"

namespace peri::passes {
namespace {

// All elements of a numeric or boolean constant are `want`.
bool all_equal_to(const ir::Value* v, double want) {
  if (!v || !v->constant || v->constant->numel() == 0 || v->constant->numel() > 4096) return false;
  const Tensor& t = *v->constant;
  if (!ops::contains(ops::kNumbers | ops::kBools, t.dtype())) return false;
  for (int64_t k = 0; k < t.numel(); ++k)
    if ((is_float(t.dtype()) ? t.f64(k) : static_cast<double>(t.i64(k))) != want) return false;
  return true;
}

// The constant behind an expand, or v itself.
const ir::Value* unexpanded(const ir::Value* v) {
  while (v && v->producer && v->producer->op == "expand") v = v->producer->in(0);
  return v;
}

// x of x*1, x+0, x-0, x/1, x^1, and(x, true), or(x, false). Only single-element constants count: whether an engine adds
// a bias must not depend on the values of its weights.
ir::Value* neutral(const ir::Node& n) {
  if (n.inputs.size() != 2) return nullptr;
  struct Row {
    std::string_view op;
    double value;
    bool either;
  };
  static constexpr Row kRows[] = {{"mul", 1, true},  {"add", 0, true}, {"sub", 0, false}, {"div", 1, false},
                                  {"pow", 1, false}, {"and", 1, true}, {"or", 0, true}};
  for (const Row& row : kRows) {
    if (n.op != row.op) continue;
    for (size_t k : {1, 0}) {
      if (k == 0 && !row.either) break;
      const ir::Value* c = unexpanded(n.in(k));
      if (!same_shape(n.in(1 - k), n.out()) || n.in(1 - k)->type.dtype != n.out()->type.dtype) continue;
      if (!stays_within(n.in(k), n.out())) continue;
      if (all_equal_to(c, row.value) && (c->constant->numel() == 1 || c->type.dtype == DType::kBool))
        return n.in(1 - k);
    }
  }
  return nullptr;
}

// An expand that changes no size in any run: what it expands to is 1 or the size that is there.
bool is_no_expand(const ir::Node& n) {
  if (!same_shape(n.in(0), n.out())) return false;
  const Shape& now = *n.in(0)->type.shape;
  if (!n.in(1)->content) return n.in(1)->constant || is_const(now);
  const std::vector<Dim>& wanted = *n.in(1)->content;
  for (size_t k = 1; k <= wanted.size(); ++k)
    if (k > now.size() ||
        (!wanted[wanted.size() - k].is_const(1) && !(wanted[wanted.size() - k] == now[now.size() - k])))
      return false;
  return true;
}

bool is_full_slice(const ir::Node& n) {
  if (!same_shape(n.in(0), n.out())) return false;
  if (!n.in(4)) return true;
  const auto steps = numbers_of(n.in(4));
  return steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s == 1; });
}

// The value that a node passes on as it is; null if it does something.
ir::Value* passed_on(const ir::Node& n) {
  ir::Value* x = n.in(0);
  if (!x || n.outputs.empty()) return nullptr;
  if (ir::Value* v = neutral(n)) return v;
  const ir::Node* before = x->producer;
  if ((n.op == "neg" || n.op == "not") && before && before->op == n.op) return before->in(0);
  if (n.op == "cast" && x->type.dtype == n.out()->type.dtype) return x;
  if (n.op == "expand" && is_no_expand(n)) return x;
  if (n.op == "slice" && is_full_slice(n)) return x;
  if ((n.op == "concat" || n.op == "sum" || n.op == "mean" || n.op == "max" || n.op == "min") && n.inputs.size() == 1)
    return x;
  if (n.op == "split" && n.outputs.size() == 1) return x;
  if (n.op == "relu" && before && before->op == "relu") return x;
  if (n.op == "where") {
    for (double side : {1.0, 0.0})
      if (ir::Value* v = n.in(side == 1.0 ? 1 : 2); v && all_equal_to(unexpanded(x), side) && same_shape(v, n.out()) &&
                                                    stays_within(x, n.out()) &&
                                                    stays_within(n.in(side == 1.0 ? 2 : 1), n.out()))
        return v;
  }
  return nullptr;
}

// Elements that have an exact reciprocal: powers of two.
std::optional<Tensor> exact_reciprocals(const Tensor& t) {
  auto out = Tensor::zeros(t.dtype(), t.dims());
  if (!out.ok() || !is_float(t.dtype()) || t.numel() == 0) return std::nullopt;
  for (int64_t k = 0; k < t.numel(); ++k) {
    int exponent = 0;
    if (std::fabs(std::frexp(t.f64(k), &exponent)) != 0.5 || std::abs(exponent) > 14) return std::nullopt;
    out->set_f64(k, 1 / t.f64(k));
  }
  return *std::move(out);
}

// A power by a small whole number as products, which round less than the power may; null: none.
Result<ir::Value*> products(Rewriter& w, ir::Node* n) {
  ir::Value* const x = n->in(0);
  const std::optional<double> exponent = scalar_of(n->in(1));
  if (!exponent || !same_shape(x, n->out())) return nullptr;
  if (*exponent == -1) return w.make("reciprocal", {x}, {}, n->out());
  if (*exponent != 2 && *exponent != 3 && *exponent != 4) return nullptr;
  PERI_ASSIGN(ir::Value * square, w.make("mul", {x, x}, {}, n->out()));
  if (*exponent == 2) return square;
  return w.make("mul", {square, *exponent == 3 ? x : square}, {}, n->out());
}

// A constant exponent in the type of the base, if that has all its values.
std::optional<Tensor> typed_exponent(const ir::Node& n) {
  const DType wanted = n.in(0)->type.dtype;
  if (!n.in(1)->constant || n.in(1)->type.dtype == wanted || n.in(1)->constant->numel() > 4096) return std::nullopt;
  const Tensor& t = *n.in(1)->constant;
  if (t.dtype() == DType::kU64) return std::nullopt;  // may be read as negative
  auto out = Tensor::zeros(wanted, t.dims());
  if (!out.ok()) return std::nullopt;
  for (int64_t k = 0; k < t.numel(); ++k) {
    const double v = is_float(t.dtype()) ? t.f64(k) : static_cast<double>(t.i64(k));
    out->set_f64(k, v);
    if (out->f64(k) != v || std::fabs(v) > 0x1p52) return std::nullopt;
  }
  return *std::move(out);
}

Result<bool> powers(Rewriter& w, ir::Node* n) {
  if (n->op != "pow" || !ops::contains(ops::kFloats, n->out()->type.dtype)) return false;
  PERI_ASSIGN(ir::Value * y, products(w, n));
  if (!y) {
    auto exponent = typed_exponent(*n);
    if (!exponent) return false;
    ir::Value* const constant = w.graph().add_constant(n->in(1)->name, *std::move(exponent));
    PERI_ASSIGN(y, w.make("pow", {n->in(0), constant}, {}, n->out()));
  }
  w.replace(n->out(), y);
  return true;
}

Result<bool> cheaper(Rewriter& w, ir::Node* n) {
  ir::Value* y = nullptr;
  if (!ops::contains(ops::kFloats, n->out()->type.dtype)) return false;
  if (n->op == "div" && n->in(1)->constant && n->in(1)->constant->numel() <= 4096) {
    auto r = exact_reciprocals(*n->in(1)->constant);
    if (!r) return false;
    PERI_ASSIGN(y, w.make("mul", {n->in(0), w.graph().add_constant(n->in(1)->name, *std::move(r))}, {}, n->out()));
  } else if (n->op == "div" && scalar_of(n->in(0)) == 1.0 && same_shape(n->in(1), n->out())) {
    PERI_ASSIGN(y, w.make("reciprocal", {n->in(1)}, {}, n->out()));
  } else {
    return false;
  }
  w.replace(n->out(), y);
  return true;
}

// An operand that is expanded to what broadcasting makes of it anyway is read before the expand.
Result<bool> without_expands(Rewriter& w, ir::Node* n) {
  const ops::OpDef* op = ops::find(n->op);
  if (!op || !op->elementwise || n->outputs.size() != 1 || n->inputs.size() < 2) return false;
  for (size_t k = 0; k < n->inputs.size(); ++k) {
    ir::Value* v = n->in(k);
    if (!v || !made_by(v, "expand") || !stays_within(v, n->out())) continue;
    const bool kept = std::any_of(n->inputs.begin(), n->inputs.end(),
                                  [&](const ir::Value* o) { return o && o != v && same_shape(o, n->out()); });
    std::vector<ir::Value*> inputs = n->inputs;
    inputs[k] = v->producer->in(0);
    const bool others_scalar = std::all_of(n->inputs.begin(), n->inputs.end(),
                                           [&](const ir::Value* o) { return !o || o == v || scalar_of(o); });
    if (!kept && !(others_scalar && inputs[k]->type.rank() == n->out()->type.rank())) continue;
    w.standing_for({n});
    PERI_ASSIGN(ir::Value * y, w.make(n->op, inputs, n->attrs, n->out()));
    if (!kept) {
      PERI_ASSIGN(y, w.make("expand", {y, v->producer->in(1)}, {}, n->out()));
    }
    w.replace(n->out(), y);
    return true;
  }
  return false;
}

// expand(expand(x)), and(x, true) with a larger true, constant_of_shape, gathers from a constant of equal elements or
// by one repeated index.
Result<bool> broadcasts(Rewriter& w, ir::Node* n) {
  auto expanded = [&](ir::Value* x) -> Result<bool> {
    if (!w.sized_by_inputs(*n->out()->type.shape)) return false;
    ir::Attrs attrs;
    attrs["value"] = std::vector<Dim>(*n->out()->type.shape);
    PERI_ASSIGN(ir::Value * dims, w.make("dims_constant", {}, std::move(attrs), nullptr));
    PERI_ASSIGN(ir::Value * y, w.make("expand", {x, dims}, {}, n->out()));
    w.replace(n->out(), y);
    return true;
  };
  if (n->op == "expand" && made_by(n->in(0), "expand")) {
    PERI_ASSIGN(ir::Value * y, w.make("expand", {n->in(0)->producer->in(0), n->in(1)}, {}, n->out()));
    if (same_shape(y, n->out())) {
      w.replace(n->out(), y);
      return true;
    }
    return false;
  }
  if (n->op == "and" && n->inputs.size() == 2)
    for (size_t k : {0, 1})
      if (all_equal_to(unexpanded(n->in(k)), 1)) return expanded(n->in(1 - k));
  if (n->op == "constant_of_shape") {
    const Tensor* const value = n->tensor("value");
    auto one = (value ? Result<Tensor>(*value) : Tensor::zeros(DType::kF32, {1}));
    if (one.ok()) one = one->reshaped(std::vector<int64_t>(n->out()->type.rank(), 1));
    if (!one.ok()) return false;
    return expanded(w.graph().add_constant(n->out()->name, *std::move(one)));
  }
  if (n->op == "gather_elements") {
    const ir::Value* data = unexpanded(n->in(0));
    if (!data->constant || data->constant->numel() == 0 ||
        !ops::contains(ops::kNumbers | ops::kBools, data->constant->dtype()))
      return false;
    const Tensor& t = *data->constant;
    if (!all_equal_to(data, is_float(t.dtype()) ? t.f64(0) : static_cast<double>(t.i64(0)))) return false;
    auto one = Tensor::zeros(t.dtype(), std::vector<int64_t>(n->out()->type.rank(), 1));
    if (!one.ok()) return false;
    if (is_float(t.dtype())) {
      one->set_f64(0, t.f64(0));
    } else {
      one->set_i64(0, t.i64(0));
    }
    return expanded(w.graph().add_constant(data->name, *std::move(one)));
  }
  if (n->op == "gather" && n->in(0)->constant && made_by(n->in(1), "expand")) {
    const ir::Value* index = unexpanded(n->in(1));
    if (!index->constant || index->constant->numel() != 1 || index->type.rank() != n->in(1)->type.rank()) return false;
    PERI_ASSIGN(ir::Value * row, w.make("gather", {n->in(0), const_cast<ir::Value*>(index)}, n->attrs, n->out()));
    return expanded(row);
  }
  return false;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (ir::Value* x = passed_on(*n)) {
    w.replace(n->out(), x);
    return true;
  }
  for (auto* part : {merge_views, powers, cheaper, without_expands, broadcasts}) {
    PERI_ASSIGN(const bool hit, part(w, n));
    if (hit) return true;
    if (!w.live(n)) return false;
  }
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "simplify", rule, 50); }

}  // namespace

extern const Entry simplify_entry;
const Entry simplify_entry{{
    .name = "simplify",
    .contract = "No node is left that passes its input on (x*1, x+0, x/1, x^1, double negation, casts to the same "
                "type, expands to the same "
                "shape, slices of everything, joins of one, choices by a constant; single numbers only), no chain of "
                "reshapes, transposes or expands, and no "
                "expand of an operand that is broadcast anyway; a constant_of_shape is an expand; x^2 is x*x, x^3 and "
                "x^4 are products too, 1/x and x^-1 a reciprocal, a division by powers of two a product; a constant "
                "exponent of floats has their type if that has its values. "
                "x+0 may turn -0 into 0. It stands after folding, whose constants it reads.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"neutral elements",
          "graph { input x: f32[2,3]; const o: f32[] = [1.0]; const z: f32[1] = [0.0]; a = mul(o, x); b = add(a, z); c "
          "= "
          "div(b, o); d = pow(c, o); e = neg(d); f = neg(e); g = cast(f) {to=1}; y = relu(g); output y }",
          "graph { input x: f32[2,3]; y = relu(x); output y }"},
         {"a neutral element that adds an axis and a bias of zeros stay",
          "graph { input x: f32[3]; const o: f32[1,1] = [1.0]; const z: f32[3] = [0.0, 0.0, 0.0]; a = add(x, z); y = "
          "mul(a, o); output y }",
          "graph { input x: f32[3]; const o: f32[1,1] = [1.0]; const z: f32[3] = [0.0, 0.0, 0.0]; a = add(x, z); y = "
          "mul(a, o); output y }"},
         {"views",
          "graph { input x: f32[2,1,3]; const s: i64[2] = [6, 1]; const a: i64[1] = [1]; const t: i64[3] = [3, 1, 2]; "
          "b = "
          "transpose(x) {perm=[1, 0, 2]}; c = reshape(b, s); d = squeeze(c, a); e = reshape(d, t); f = transpose(e) "
          "{perm=[2, 1, "
          "0]}; g = transpose(f) {perm=[2, 1, 0]}; y = relu(g); output y }",
          "graph { input x: f32[2,1,3]; const t: i64[3] = [3, 1, 2]; e = reshape(x, t); y = relu(e); output y }"},
         {"cheaper forms",
          "graph { input x: f32[2,3]; const p: f32[] = [2.0]; const q: f32[3] = [8.0, 0.5, -4.0]; const o: f32[] = "
          "[1.0]; a = pow(x, "
          "p); b = div(a, q); y = div(o, b); output y }",
          "graph { input x: f32[2,3]; const q: f32[3] = [0.125, 2.0, -0.25]; a = mul(x, x); b = mul(a, q); y = "
          "reciprocal(b); output "
          "y }"},
         {"powers by whole numbers",
          "graph { input x: f32[2,3]; const p: i64[] = [3]; const q: f32[1] = [4.0]; const r: i32[] = [-1]; const s: "
          "i64[3] = [2, -3, 0]; const t: f64[] = [0.1]; a = pow(x, p); b = pow(x, q); c = pow(x, r); d = pow(x, s); e "
          "= "
          "pow(x, t); output a; output b; output c; output d; output e }",
          "graph { input x: f32[2,3]; const t: f64[] = [0.1]; const s: f32[3] = [2.0, -3.0, 0.0]; e = pow(x, t); u = "
          "mul(x, x); a = mul(u, x); v = mul(x, x); b = mul(v, v); c = reciprocal(x); d = pow(x, s); output a; output "
          "b; output c; output d; output e }"},
         {"a mask that is expanded by hand",
          "graph { input x: f32[b,4,4]; input m: bool[b,1,4]; const t: bool[1,4,1] = [1, 1, 1, 1]; const z: f32[] = "
          "[0.0]; const n: "
          "f32[] = [-100.0]; s = dims_constant() {value=dims[b,4,4]}; a = and(m, t); c = expand(a, s); d = where(c, z, "
          "n); y = "
          "add(x, d); output y }",
          "graph { input x: f32[b,4,4]; input m: bool[b,1,4]; const z: f32[] = [0.0]; const n: f32[] = [-100.0]; d = "
          "where(m, z, n); y "
          "= add(x, d); output y }"},
         {"a constant of a shape that the input has",
          "graph { input x: f32[n,4]; s = dims_constant() {value=dims[n,4]}; a = constant_of_shape(s) {value=tensor "
          "f32[1] [2.0]}; z = constant_of_shape(s) {value=tensor i64[1] [7]}; y = mul(x, a); output y; output z }",
          "graph { input x: f32[n,4]; const a: f32[1,1] = [2.0]; const b: i64[1,1] = [7]; s = dims_constant() "
          "{value=dims[n,4]}; z = expand(b, s); y = mul(x, a); output y; output z }"},
         {"token types that are all the same",
          "graph { input i: i64[1,s]; const w: f32[2,3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; input x: f32[1,s,3]; const "
          "z: i64[1,4] = [1, "
          "1, 1, 1]; a = gather_elements(z, i) {axis=1}; b = gather(w, a); y = add(x, b); output y }",
          "graph { input i: i64[1,s]; const w: f32[2,3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; input x: f32[1,s,3]; const "
          "z: i64[1,1] = [1]; "
          "b = gather(w, z); y = add(x, b); output y }"}},
}};

}  // namespace peri::passes
