// Pass open_products: einsums, and products with factors, transposed sides or an added matrix, become the matmul that
// kernels know and the ops around it.
#include "passes/entry.hpp"
#include "passes/rewrite/einsum.hpp"

namespace peri::passes {
namespace {

// Of the types that a matmul has the floats that tiled products take, with a row to add.
bool has_tiles(DType t) { return is_float(t) && t != DType::kF64; }

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

// Of two vectors, or of batches that kernels do not take.
Result<bool> open_matmul(Rewriter& w, ir::Node* n) {
  ir::Value *const a = n->in(0), *const b = n->in(1);
  if (!a->type.known() || !b->type.known() || a->type.rank() != 1 || b->type.rank() != 1) return open_batches(w, n);
  const Dim &k = (*a->type.shape)[0], &other = (*b->type.shape)[0];
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * row, w.reshape(a, {Dim(1), k}, a));
  PERI_ASSIGN(ir::Value * column, w.reshape(b, {other, Dim(1)}, b));
  PERI_ASSIGN(ir::Value * y, w.make("matmul", {row, column}, {}, n->out()));
  PERI_ASSIGN(y, w.reshape(y, {}, n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op == "einsum") return open_einsum(w, n);
  if (n->op == "matmul") return open_matmul(w, n);
  if (n->op == "gemm") return open_gemm(w, n);
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_products", rule); }

}  // namespace

extern const Entry open_products_entry;
const Entry open_products_entry{{
    .name = "open_products",
    .contract =
        "No einsum is left whose terms agree in their extents or are 1 there: one of more than two operands is "
        "products of two, those first that multiply least, and of what a term names by one letter twice the diagonal. "
        "None is left of products of two vectors or of batches in more than two groups, of float gemms with a "
        "transposed left side, with factors or with "
        "more than a row to add, and of those of float64 "
        "or of integers without factors. They are transposes, reshapes, matmul, mul, reduce_sum and add. It stands "
        "before "
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
         {"axes under an ellipsis, one of them broadcast, and a sum of one side alone",
          "graph { input a: f32[n,3,4,5]; input b: f32[1,5,6,2]; y = einsum(a, b) {equation=\"...ij,...jkl->...ik\"}; "
          "output y }",
          "graph { input a: f32[n,3,4,5]; input b: f32[1,5,6,2]; const x: i64[1] = [3]; const d: i64[2] = [5, 6]; "
          "const e: "
          "i64[2] = [-1, 5]; const f: i64[4] = [-1, 3, 4, 6]; s = reduce_sum(b, x) {keepdims=0}; r = reshape(s, d); l "
          "= "
          "reshape(a, e); p = matmul(l, r); y = reshape(p, f); output y }"},
         {"of three operands the cheaper two first",
          "graph { input a: f32[4,30,2]; input b: f32[2,50]; input c: f32[50,20]; y = einsum(a, b, c) "
          "{equation=\"bij,jk,kl->bil\"}; output y }",
          "graph { input a: f32[4,30,2]; input b: f32[2,50]; input c: f32[50,20]; const d: i64[2] = [120, 2]; const "
          "e: i64[3] = [4, 30, 20]; p = matmul(b, c); l = reshape(a, d); q = matmul(l, p); y = reshape(q, e); output y "
          "}"},
         {"integers",
          "graph { input a: i64[3,5]; input b: i64[5,4]; y = einsum(a, b) {equation=\"ij,jk->ik\"}; output y }",
          "graph { input a: i64[3,5]; input b: i64[5,4]; y = matmul(a, b); output y }"},
         {"a gemm of float64",
          "graph { input a: f64[6,4]; input b: f64[5,4]; input c: f64[5]; y = gemm(a, b, c) {transB=1}; output y }",
          "graph { input a: f64[6,4]; input b: f64[5,4]; input c: f64[5]; t = transpose(b) {perm=[1, 0]}; p = "
          "matmul(a, "
          "t); y = add(p, c); output y }"},
         {"a diagonal", "graph { input a: f32[3,3]; y = einsum(a) {equation=\"ii->i\"}; output y }",
          "graph { input a: f32[3,3]; const s: i64[1] = [9]; const t: i64[2] = [3, 4]; const b: i64[1] = [0]; const "
          "e: i64[1] = [1]; const x: i64[1] = [-1]; const u: i64[1] = [3]; r = reshape(a, s); n = dims_constant() "
          "{value=dims[0,3]}; p = pad(r, n); q = reshape(p, t); c = slice(q, b, e, x); y = reshape(c, u); output y "
          "}"},
         {"two vectors", "graph { input a: f32[k]; input b: f32[k]; y = matmul(a, b); output y }",
          "graph { input a: f32[k]; input b: f32[k]; const s: i64[2] = [1, -1]; const t: i64[2] = [-1, 1]; const e: "
          "i64[0] = []; r = reshape(a, s); c = reshape(b, t); p = matmul(r, c); y = reshape(p, e); output y }"},
         {"a gemm with factors",
          "graph { input a: f32[6,4]; const b: f32[6,5] = seeded(0.5, 1); const c: f32[4,5] = seeded(0.5, 2); y "
          "= gemm(a, b, c) {alpha=0.5, transA=1}; output y }",
          "graph { input a: f32[6,4]; const b: f32[6,5] = seeded(0.5, 1); const c: f32[4,5] = seeded(0.5, 2); "
          "const s: f32[] = [0.5]; t = transpose(a) {perm=[1, 0]}; p = matmul(t, b); q = mul(p, s); y = add(q, "
          "c); output y }"}},
}};

}  // namespace peri::passes
