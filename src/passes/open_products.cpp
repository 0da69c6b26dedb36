// Pass open_products: einsums, and products with factors, transposed sides or an added matrix, become the matmul that
// kernels know and the ops around it.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// The terms of an equation of plain letters, the result's last; none where one is named twice in a term.
std::optional<std::vector<std::string>> terms_of(const ir::Node& n) {
  std::vector<std::string> terms = {""};
  std::string text;
  for (const char c : n.s("equation"))
    if (c != ' ') text += c;
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  for (const char c : text.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else if (std::isalpha(static_cast<unsigned char>(c)) && terms.back().find(c) == std::string::npos)
      terms.back() += c;
    else
      return std::nullopt;
  }
  terms.push_back(text.substr(arrow + 2));
  if (terms.size() != n.inputs.size() + 1 || terms.back().find('.') != std::string::npos) return std::nullopt;
  for (size_t k = 0; k < n.inputs.size(); ++k)
    if (!n.inputs[k] || !n.inputs[k]->type.known() || n.inputs[k]->type.rank() != terms[k].size()) return std::nullopt;
  return terms;
}

bool has(const std::string& term, char c) { return term.find(c) != std::string::npos; }
Dim extent(const ir::Value* v, const std::string& term, char c) { return (*v->type.shape)[term.find(c)]; }

// Letters of `of` for which the rest holds.
template <class F>
std::string those(const std::string& of, F f) {
  std::string out;
  for (const char c : of)
    if (f(c)) out += c;
  return out;
}

// `v`, whose axes are those of `term`, with its axes as `wanted` names them.
Result<ir::Value*> arranged(Rewriter& w, ir::Value* v, const std::string& term, const std::string& wanted) {
  std::vector<int64_t> perm;
  for (const char c : wanted) perm.push_back(static_cast<int64_t>(term.find(c)));
  if (std::is_sorted(perm.begin(), perm.end())) return v;
  return w.transpose(v, perm, v);
}

// The same with a one where `wanted` names an axis that it has not.
Result<ir::Value*> aligned(Rewriter& w, ir::Value* v, const std::string& term, const std::string& wanted) {
  const std::string own = those(wanted, [&](char c) { return has(term, c); });
  Shape to;
  for (const char c : wanted) to.push_back(has(term, c) ? extent(v, term, c) : Dim(1));
  PERI_ASSIGN(ir::Value * moved, arranged(w, v, term, own));
  return w.reshape(moved, to, v);
}

struct Letters {
  std::string batch, rows, columns, summed;  // of both, of the left, of the right; of both and not of the result
};

Result<ir::Value*> sum_last(Rewriter& w, ir::Value* v, size_t count, const ir::Value* like) {
  if (count == 0) return v;
  std::vector<int64_t> axes;
  for (size_t k = 0; k < count; ++k) axes.push_back(static_cast<int64_t>(v->type.rank() - count + k));
  return w.make("reduce_sum", {v, w.ints(axes, like->name)}, {{"keepdims", int64_t{0}}}, like);
}

// Axes in groups, each group one axis.
Shape grouped(const ir::Value* v, const std::string& term, const std::string& batch, const std::string& first,
              const std::string& second) {
  Shape out;
  for (const char c : batch) out.push_back(extent(v, term, c));
  for (const std::string* group : {&first, &second}) {
    Dim d(1);
    for (const char c : *group) d = d * extent(v, term, c);
    out.push_back(d);
  }
  return out;
}

Result<ir::Value*> product(Rewriter& w, const ir::Node& n, const std::vector<std::string>& terms, const Letters& l) {
  ir::Value *a = n.in(0), *b = n.in(1);
  const std::string made = l.batch + l.rows + l.columns;
  if (l.summed.empty() || (l.rows.empty() && l.columns.empty())) {  // element by element
    const std::string all = terms[2] + l.summed;
    PERI_ASSIGN(ir::Value * left, aligned(w, a, terms[0], all));
    PERI_ASSIGN(ir::Value * right, aligned(w, b, terms[1], all));
    PERI_ASSIGN(ir::Value * y, w.make("mul", {left, right}, {}, n.out()));
    return sum_last(w, y, l.summed.size(), n.out());
  }
  Shape y_shape;
  for (const char c : made)
    y_shape.push_back(extent(has(terms[0], c) ? a : b, has(terms[0], c) ? terms[0] : terms[1], c));
  PERI_ASSIGN(ir::Value * left, arranged(w, a, terms[0], l.batch + l.rows + l.summed));
  PERI_ASSIGN(ir::Value * right, arranged(w, b, terms[1], l.batch + l.summed + l.columns));
  PERI_ASSIGN(left, w.reshape(left, grouped(a, terms[0], l.batch, l.rows, l.summed), a));
  PERI_ASSIGN(right, w.reshape(right, grouped(b, terms[1], l.batch, l.summed, l.columns), b));
  PERI_ASSIGN(ir::Value * y, w.make("matmul", {left, right}, {}, n.out()));
  PERI_ASSIGN(y, w.reshape(y, y_shape, n.out()));
  return arranged(w, y, made, terms[2]);
}

// Types that a matmul has; of these the floats that tiled products take, with a row to add.
bool multiplies(DType t) {
  return is_float(t) || t == DType::kI32 || t == DType::kI64 || t == DType::kU32 || t == DType::kU64;
}
bool has_tiles(DType t) { return is_float(t) && t != DType::kF64; }

Result<bool> open_einsum(Rewriter& w, ir::Node* n) {
  const auto terms = terms_of(*n);
  if (!terms || !multiplies(n->out()->type.dtype) || n->inputs.size() > 2) return false;
  for (const ir::Value* v : n->inputs)
    if (!w.sized_by_inputs(*v->type.shape)) return false;
  const std::string &a = (*terms)[0], &y = terms->back();
  w.standing_for({n});
  ir::Value* made = nullptr;
  if (n->inputs.size() == 1) {
    const std::string summed = those(a, [&](char c) { return !has(y, c); });
    PERI_ASSIGN(made, arranged(w, n->in(0), a, y + summed));
    PERI_ASSIGN(made, sum_last(w, made, summed.size(), n->out()));
  } else {
    const std::string& b = (*terms)[1];
    for (const char c : a + b) {
      if (has(a, c) && has(b, c) ? !(extent(n->in(0), a, c) == extent(n->in(1), b, c)) : !has(y, c)) return false;
    }
    const Letters l = {those(y, [&](char c) { return has(a, c) && has(b, c); }),
                       those(y, [&](char c) { return has(a, c) && !has(b, c); }),
                       those(y, [&](char c) { return !has(a, c) && has(b, c); }),
                       those(a, [&](char c) { return has(b, c) && !has(y, c); })};
    PERI_ASSIGN(made, product(w, *n, *terms, l));
  }
  if (made == n->in(0)) return false;
  w.replace(n->out(), made);
  return true;
}

// A gemm that no kernel takes as it stands.
Result<bool> open_gemm(Rewriter& w, ir::Node* n) {
  ir::Value* c = n->in(2) && n->f("beta", 1) != 0 ? n->in(2) : nullptr;
  const DType type = n->out()->type.dtype;
  const bool row =
      !c || (c->type.rank() <= 2 && c->type.rank() > 0 && c->type.shape->back() == n->out()->type.shape->back() &&
             (c->type.rank() == 1 || (*c->type.shape)[0].is_const(1)));
  const bool plain = n->i("transA") == 0 && n->f("alpha", 1) == 1 && row && (!c || n->f("beta", 1) == 1);
  const bool factors = n->f("alpha", 1) != 1 || (c && n->f("beta", 1) != 1);
  if ((plain && has_tiles(type)) || !multiplies(type) || (factors && !is_float(type))) return false;
  w.standing_for({n});
  ir::Value *a = n->in(0), *b = n->in(1);
  if (n->i("transA") != 0) {
    PERI_ASSIGN(a, w.transpose(a, {1, 0}, a));
  }
  if (n->i("transB") != 0) {
    PERI_ASSIGN(b, w.transpose(b, {1, 0}, b));
  }
  PERI_ASSIGN(ir::Value * y, w.make("matmul", {a, b}, {}, n->out()));
  if (n->f("alpha", 1) != 1) {
    PERI_ASSIGN(y, w.make("mul", {y, w.scalar(type, n->f("alpha", 1), n->name)}, {}, n->out()));
  }
  if (c && n->f("beta", 1) != 1) {
    PERI_ASSIGN(c, w.make("mul", {c, w.scalar(type, n->f("beta", 1), n->name)}, {}, c));
  }
  if (c) {
    PERI_ASSIGN(y, w.make("add", {y, c}, {}, n->out()));
  }
  w.replace(n->out(), y);
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op == "einsum") return open_einsum(w, n);
  if (n->op == "gemm") return open_gemm(w, n);
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_products", rule); }

}  // namespace

extern const Entry open_products_entry;
const Entry open_products_entry{{
    .name = "open_products",
    .contract =
        "No einsum of one or two operands is left whose terms name plain letters once each and agree in their extents, "
        "no float gemm with a transposed left side, with factors or with more than a row to add, and none of float64 "
        "or "
        "of integers without factors: they are transposes, reshapes, matmul, mul, reduce_sum and add. It stands before "
        "the passes that look for matmul.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"scores of attention",
          "graph { input q: f32[batch,4,seq,8]; input k: f32[batch,4,seq,8]; y = einsum(q, k) "
          "{equation=\"bhid,bhjd->bhij\"}; output y }",
          "graph { input q: f32[batch,4,seq,8]; input k: f32[batch,4,seq,8]; t = transpose(k) {perm=[0, 1, 3, "
          "2]}; y = matmul(q, t); output y }"},
         {"a product of elements and its sum",
          "graph { input a: f32[3,5]; input b: f32[5,3]; y = einsum(a, b) {equation=\"ij,ji->i\"}; output y }",
          "graph { input a: f32[3,5]; input b: f32[5,3]; const x: i64[1] = [1]; t = transpose(b) {perm=[1, 0]}; "
          "m = mul(a, t); y = reduce_sum(m, x) {keepdims=0}; output y }"},
         {"integers",
          "graph { input a: i64[3,5]; input b: i64[5,4]; y = einsum(a, b) {equation=\"ij,jk->ik\"}; output y }",
          "graph { input a: i64[3,5]; input b: i64[5,4]; y = matmul(a, b); output y }"},
         {"a gemm of float64",
          "graph { input a: f64[6,4]; input b: f64[5,4]; input c: f64[5]; y = gemm(a, b, c) {transB=1}; output y }",
          "graph { input a: f64[6,4]; input b: f64[5,4]; input c: f64[5]; t = transpose(b) {perm=[1, 0]}; p = "
          "matmul(a, "
          "t); y = add(p, c); output y }"},
         {"a trace stays", "graph { input a: f32[3,3]; y = einsum(a) {equation=\"ii->i\"}; output y }",
          "graph { input a: f32[3,3]; y = einsum(a) {equation=\"ii->i\"}; output y }"},
         {"a gemm with factors",
          "graph { input a: f32[6,4]; const b: f32[6,5] = seeded(0.5, 1); const c: f32[4,5] = seeded(0.5, 2); y "
          "= gemm(a, b, c) {alpha=0.5, transA=1}; output y }",
          "graph { input a: f32[6,4]; const b: f32[6,5] = seeded(0.5, 1); const c: f32[4,5] = seeded(0.5, 2); "
          "const s: f32[] = [0.5]; t = transpose(a) {perm=[1, 0]}; p = matmul(t, b); q = mul(p, s); y = add(q, "
          "c); output y }"}},
}};

}  // namespace peri::passes
