// Pass gemm_to_matmul: a gemm between reshapes becomes a matmul of the original tensor and an addition of its bias.
#include "passes/entry.hpp"
#include "passes/rewrite/move_constant.hpp"
#include "passes/rewrite/views.hpp"

namespace peri::passes {
namespace {

// Constant b as [k, n], transposed if the gemm says so.
ir::Value* plain_weights(Rewriter& w, const ir::Node& gemm) {
  ir::Value* b = gemm.in(1);
  if (!b->constant || gemm.i("transB") == 0) return b->constant ? b : nullptr;
  auto t = transposed(*b->constant, {1, 0});
  return t ? w.graph().add_constant(b->name, *std::move(t)) : nullptr;
}

// The leading axes into which all users unfold the rows again; none if one does not.
std::optional<Shape> unfolded(Rewriter& w, const ir::Value* y) {
  if (w.graph().is_output(y) || y->users.empty() || y->users[0]->op != "reshape") return std::nullopt;
  const Shape want = *y->users[0]->out()->type.shape;
  if (want.size() < 3 || !(want.back() == y->type.shape->back())) return std::nullopt;
  for (const ir::Node* u : y->users)
    if (u->op != "reshape" || u->in(0) != y || !(*u->out()->type.shape == want)) return std::nullopt;
  return Shape(want.begin(), want.end() - 1);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "gemm" || n->i("transA") != 0 || n->f("alpha", 1) != 1) return false;
  ir::Value* c = n->in(2) && n->f("beta", 1) != 0 ? n->in(2) : nullptr;
  if ((c && (n->f("beta", 1) != 1 || c->type.rank() > 1)) || !n->in(1)->constant) return false;
  std::optional<Shape> rows = unfolded(w, n->out());
  if (!rows) return false;
  const std::vector<ir::Node*> users = n->out()->users;
  w.standing_for({n});
  ir::Value* b = plain_weights(w, *n);
  if (!b) return false;
  ir::Value* x = n->in(0);
  rows->push_back(x->type.shape->back());
  while (x->producer && is_reshape_like(*x->producer)) x = x->producer->in(0);
  PERI_ASSIGN(x, w.reshape(x, *rows, n->in(0)));
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
    .contract =
        "No gemm with constant weights is left whose users all unfold its rows into the same leading axes: it is a "
        "matmul of the unfolded tensor and an addition, which take epilogues and let transposes through.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"a linear layer of GPT-2",
                  "graph { input x: f32[batch,seq,6]; const w: f32[6,4] = seeded(0.5, 1); const c: f32[4] = "
                  "seeded(0.5, 2); const s: i64[2] = "
                  "[-1, 6]; t = dims_constant() {value=dims[batch,seq,4]}; a = reshape(x, s); b = gemm(a, w, c); d = "
                  "reshape(b, t); y = "
                  "relu(d); output y }",
                  "graph { input x: f32[batch,seq,6]; const w: f32[6,4] = seeded(0.5, 1); const c: f32[4] = "
                  "seeded(0.5, 2); a = matmul(x, w); b "
                  "= add(a, c); y = relu(b); output y }"},
                 {"transposed weights",
                  "graph { input x: f32[5,2,2]; const w: f32[3,2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; const s: i64[2] = "
                  "[10, 2]; const t: "
                  "i64[3] = [5, 2, 3]; a = reshape(x, s); b = gemm(a, w) {transB=1}; y = reshape(b, t); output y }",
                  "graph { input x: f32[5,2,2]; const w: f32[2,3] = [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]; y = matmul(x, w); "
                  "output y }"},
                 {"rows that are not unfolded stay",
                  "graph { input x: f32[5,2,2]; const w: f32[2,3] = seeded(0.5, 1); const s: i64[2] = [10, 2]; a = "
                  "reshape(x, s); y = "
                  "gemm(a, w); output y }",
                  "graph { input x: f32[5,2,2]; const w: f32[2,3] = seeded(0.5, 1); const s: i64[2] = [10, 2]; a = "
                  "reshape(x, s); y = "
                  "gemm(a, w); output y }"}},
}};

}  // namespace peri::passes
