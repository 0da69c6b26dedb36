// Pass gemm_to_matmul: a gemm between reshapes is a matmul of the unfolded tensor with its bias as an addition.
#include <algorithm>

#include "passes/core/move_constant.hpp"
#include "passes/core/rewrite.hpp"
#include "passes/entry.hpp"

namespace peri::passes {
namespace {

// Constant b as [k, n], transposed if the gemm says so.
ir::Value* plain_weights(Rewriter& w, const ir::Node& gemm) {
  ir::Value* b = gemm.in(1);
  if (!b->constant || gemm.i("transB") == 0) return b->constant ? b : nullptr;
  auto t = transposed(*b->constant, {1, 0});
  return t ? w.graph().add_constant(b->name, *std::move(t)) : nullptr;
}

// The value before a reshape that folded its leading axes into one; null if x is not such a reshape.
ir::Value* unfolded(const ir::Value* x) {
  ir::Node* r = x->producer;
  if (!r || (r->op != "reshape" && r->op != "flatten") || !r->in(0)->type.known()) return nullptr;
  const Shape &from = *r->in(0)->type.shape, &to = *x->type.shape;
  if (from.size() < 3 || to.size() != 2 || !(from.back() == to.back())) return nullptr;
  return r->in(0);
}

// All users unfold the rows again into `lead` + [n].
bool unfolds(Rewriter& w, const ir::Value* y, Shape want) {
  want.push_back(y->type.shape->back());
  if (w.graph().is_output(y)) return false;
  return std::all_of(y->users.begin(), y->users.end(),
                     [&](const ir::Node* u) { return u->op == "reshape" && u->in(0) == y && *u->out()->type.shape == want; });
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "gemm" || n->i("transA") != 0 || n->f("alpha", 1) != 1) return false;
  ir::Value* x = unfolded(n->in(0));
  ir::Value* c = n->in(2) && n->f("beta", 1) != 0 ? n->in(2) : nullptr;
  if (!x || (c && (n->f("beta", 1) != 1 || c->type.rank() > 1)) || !n->in(1)->constant) return false;
  Shape lead(x->type.shape->begin(), x->type.shape->end() - 1);
  if (!unfolds(w, n->out(), lead)) return false;
  const std::vector<ir::Node*> users = n->out()->users;
  w.standing_for({n});
  ir::Value* b = plain_weights(w, *n);
  if (!b) return false;
  PERI_ASSIGN(ir::Value * y, w.make("matmul", {x, b}, {}, n->out()));
  if (c) {
    PERI_ASSIGN(y, w.make("add", {y, c}, {}, n->out()));
  }
  for (ir::Node* u : users) w.replace(u->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "gemm_to_matmul", rule); }

}  // namespace

extern const Entry gemm_to_matmul_entry;
const Entry gemm_to_matmul_entry{{
    .name = "gemm_to_matmul",
    .contract = "No gemm with constant weights stands between a reshape that folds leading axes and reshapes that unfold them: it is "
                "a matmul of the unfolded tensor and an addition, which take epilogues and let transposes through.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"a linear layer of GPT-2",
          "graph { input x: f32[batch,seq,6]; const w: f32[6,4] = seeded(0.5, 1); const c: f32[4] = seeded(0.5, 2); const s: i64[2] = "
          "[-1, 6]; t = dims_constant() {value=dims[batch,seq,4]}; a = reshape(x, s); b = gemm(a, w, c); d = reshape(b, t); y = "
          "relu(d); output y }",
          "graph { input x: f32[batch,seq,6]; const w: f32[6,4] = seeded(0.5, 1); const c: f32[4] = seeded(0.5, 2); a = matmul(x, w); b "
          "= add(a, c); y = relu(b); output y }"},
         {"transposed weights",
          "graph { input x: f32[5,2,2]; const w: f32[3,2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; const s: i64[2] = [10, 2]; const t: "
          "i64[3] = [5, 2, 3]; a = reshape(x, s); b = gemm(a, w) {transB=1}; y = reshape(b, t); output y }",
          "graph { input x: f32[5,2,2]; const w: f32[2,3] = [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]; y = matmul(x, w); output y }"},
         {"rows that are not unfolded stay",
          "graph { input x: f32[5,2,2]; const w: f32[2,3] = seeded(0.5, 1); const s: i64[2] = [10, 2]; a = reshape(x, s); y = "
          "gemm(a, w); output y }",
          "graph { input x: f32[5,2,2]; const w: f32[2,3] = seeded(0.5, 1); const s: i64[2] = [10, 2]; a = reshape(x, s); y = "
          "gemm(a, w); output y }"}},
}};

}  // namespace peri::passes
