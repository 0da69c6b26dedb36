// Pass sink_transposes: transposes move towards the outputs until they meet another one, or a node that depends on the
// order of axes.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/move_constant.hpp"
#include "passes/rewrite/views.hpp"

namespace peri::passes {
namespace {

// Trailing axes that the permutation leaves in place.
size_t fixed_tail(const std::vector<int64_t>& perm) {
  size_t n = 0;
  while (n < perm.size() && perm[perm.size() - 1 - n] == static_cast<int64_t>(perm.size() - 1 - n)) ++n;
  return n;
}

// Replaces n(T(x)) by T'(n'(x)), where n' is n with input `port` changed.
Result<bool> exchange(Rewriter& w, ir::Node* n, ir::Node* t, size_t port, ir::Attrs attrs,
                      const std::vector<int64_t>& after) {
  std::vector<ir::Value*> inputs = n->inputs;
  inputs[port] = t->in(0);
  w.standing_for({n, t});
  PERI_ASSIGN(ir::Value * inner, w.make(n->op, std::move(inputs), std::move(attrs), n->out()));
  PERI_ASSIGN(ir::Value * y, w.transpose(inner, after, n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<bool> past_unary(Rewriter& w, ir::Node* n, ir::Node* t) {
  if (!w.used_once(t->out())) return false;
  const ops::OpDef* op = ops::find(n->op);
  if (!op || !op->elementwise || n->outputs.size() != 1) return false;
  for (size_t k = 1; k < n->inputs.size(); ++k)
    if (n->in(k) && !scalar_of(n->in(k))) return false;
  if (!same_shape(n->out(), t->out())) return false;
  return exchange(w, n, t, 0, n->attrs, perm_of(*t));
}

// An element-wise node with a second operand that the permutation does not affect, a constant that can be transposed
// back, or a value after the same transpose.
Result<bool> past_binary(Rewriter& w, ir::Node* n, ir::Node* t, size_t port) {
  const ops::OpDef* op = ops::find(n->op);
  if (!op || !op->elementwise || n->inputs.size() != 2 || n->outputs.size() != 1 || !same_shape(n->out(), t->out()))
    return false;
  ir::Value* other = n->in(1 - port);
  const std::vector<int64_t> perm = perm_of(*t);
  const size_t rank = perm.size();
  ir::Value* turned = nullptr;
  if (ir::Node* s = made_by(other, "transpose"); s && perm_of(*s) == perm) {
    turned = s->in(0);
  } else if (!w.used_once(t->out())) {
    return false;
  } else if (other->type.rank() <= fixed_tail(perm)) {
    turned = other;
  } else if (other->constant && other->type.rank() == rank) {
    std::vector<int64_t> back(rank);
    for (size_t k = 0; k < rank; ++k) back[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
    auto moved = transposed(*other->constant, back);
    if (!moved) return false;
    turned = w.graph().add_constant(other->name, *std::move(moved));
  } else {
    return false;
  }
  std::vector<ir::Value*> inputs(2);
  inputs[port] = t->in(0);
  inputs[1 - port] = turned;
  w.standing_for({n, t});
  PERI_ASSIGN(ir::Value * inner, w.make(n->op, std::move(inputs), n->attrs, n->out()));
  PERI_ASSIGN(ir::Value * y, w.transpose(inner, perm, n->out()));
  w.replace(n->out(), y);
  return true;
}

// Products with a plain matrix, and normalisations over trailing axes, leave the leading axes alone.
Result<bool> past_rows(Rewriter& w, ir::Node* n, ir::Node* t) {
  const std::vector<int64_t> perm = perm_of(*t);
  const size_t tail = fixed_tail(perm), rank = perm.size();
  if (!w.used_once(t->out()) || tail == 0) return false;
  if (n->op == "matmul") {
    if (n->in(1)->type.rank() != 2) return false;
  } else if (n->op == "softmax" || n->op == "layer_normalization" || n->op == "rms_normalization") {
    const int64_t axis = wrap_axis(n->i("axis", -1), rank);
    if (axis < static_cast<int64_t>(rank - tail)) return false;
    for (size_t k = 1; k < n->outputs.size(); ++k)
      if (!n->outputs[k]->users.empty() || w.graph().is_output(n->outputs[k])) return false;
    for (size_t k = 1; k < n->inputs.size(); ++k)
      if (n->in(k) && n->in(k)->type.rank() > tail) return false;
  } else {
    return false;
  }
  return exchange(w, n, t, 0, n->attrs, perm);
}

Result<bool> past_reshape(Rewriter& w, ir::Node* n, ir::Node* t) {
  const std::vector<int64_t> perm = perm_of(*t);
  const Shape& to = *n->out()->type.shape;
  const auto runs = runs_of(*t->out()->type.shape, to);
  if (!runs || runs->empty()) return false;
  // Runs in the order in which x has them; within a run, x must have its axes one after the other.
  const Shape& x = *t->in(0)->type.shape;
  std::vector<size_t> order;
  for (size_t k = 0; k < runs->size(); ++k) {
    order.push_back(k);
    const std::vector<size_t>& from = (*runs)[k].from;
    for (size_t a = 1; a < from.size(); ++a) {
      const int64_t left = perm[from[a - 1]], right = perm[from[a]];
      if (right < left) return false;
      for (int64_t between = left + 1; between < right; ++between)
        if (!x[static_cast<size_t>(between)].is_const(1)) return false;
    }
  }
  if ((*runs)[0].from.empty()) return false;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return perm[(*runs)[a].from[0]] < perm[(*runs)[b].from[0]]; });
  Shape middle;
  std::vector<int64_t> after(to.size());
  for (size_t k : order)
    for (size_t axis : (*runs)[k].to) {
      after[axis] = static_cast<int64_t>(middle.size());
      middle.push_back(to[axis]);
    }
  w.standing_for({n, t});
  PERI_ASSIGN(ir::Value * view, w.reshape(t->in(0), middle, n->out()));
  PERI_ASSIGN(ir::Value * y, w.transpose(view, after, n->out()));
  w.replace(n->out(), y);
  return true;
}

// One slice along an axis, kept (rank 1) or not (rank 0).
Result<bool> past_gather(Rewriter& w, ir::Node* n, ir::Node* t) {
  const std::vector<int64_t> perm = perm_of(*t);
  const int64_t axis = wrap_axis(n->i("axis", 0), perm.size()), source = perm[static_cast<size_t>(axis)];
  const size_t picks = n->in(1)->type.rank();
  if (picks > 1) return false;
  std::vector<int64_t> after;
  for (int64_t p : perm) {
    if (p == source && picks == 0) continue;
    after.push_back(picks == 0 && p > source ? p - 1 : p);
  }
  ir::Attrs attrs = n->attrs;
  attrs["axis"] = source;
  return exchange(w, n, t, 0, std::move(attrs), after);
}

Result<bool> past_split(Rewriter& w, ir::Node* n, ir::Node* t) {
  if (!w.used_once(t->out())) return false;
  const std::vector<int64_t> perm = perm_of(*t);
  const int64_t axis = wrap_axis(n->i("axis", 0), perm.size());
  ir::Attrs attrs = n->attrs;
  attrs["axis"] = perm[static_cast<size_t>(axis)];
  std::vector<ir::Value*> inputs = n->inputs;
  inputs[0] = t->in(0);
  ir::Node* inner =
      w.graph().add("split", inputs, std::move(attrs), n->out()->name, static_cast<int>(n->outputs.size()));
  inner->name = n->name;
  inner->origins = n->origins;
  inner->touched_by = n->touched_by;
  inner->touched_by.push_back("sink_transposes");
  int64_t fresh = 0;
  PERI_TRY(ops::infer_node(*inner, &fresh));
  const std::vector<ir::Value*> outs = n->outputs;
  for (size_t k = 0; k < outs.size(); ++k) {
    w.standing_for({t});
    PERI_ASSIGN(ir::Value * y, w.transpose(inner->outputs[k], perm, outs[k]));
    w.replace(outs[k], y);
  }
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  PERI_ASSIGN(const bool merged, merge_views(w, n));
  if (merged) return true;
  for (size_t port = 0; port < n->inputs.size() && port < 2; ++port) {
    ir::Node* t = n->in(port) ? made_by(n->in(port), "transpose") : nullptr;
    if (!t || n->op == "transpose" || !n->out()->type.known()) continue;
    if (port == 0 && is_reshape_like(*n)) return past_reshape(w, n, t);
    if (port == 0 && n->op == "gather") return past_gather(w, n, t);
    if (port == 0 && n->op == "split") return past_split(w, n, t);
    PERI_ASSIGN(bool hit, port == 0 ? past_rows(w, n, t) : Result<bool>(false));
    if (!hit && port == 0) {
      PERI_ASSIGN(hit, past_unary(w, n, t));
    }
    if (!hit) {
      PERI_ASSIGN(hit, past_binary(w, n, t, port));
    }
    if (hit) return true;
  }
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "sink_transposes", rule, 100); }

}  // namespace

extern const Entry sink_transposes_entry;
const Entry sink_transposes_entry{{
    .name = "sink_transposes",
    .contract = "Transposes have moved towards the outputs past everything that works on single elements or on axes "
                "they leave in place "
                "(element-wise nodes, products with a matrix, normalisations of rows, reshapes of single axes, "
                "slices), have been "
                "composed with those they met, and are gone where they undo each other; reshapes of reshapes are one. "
                "Nothing is copied "
                "twice for it. It stands before fuse_attention, which takes up transposes of its operands, and once "
                "more behind it.",
    .follows = {"fold_constants", "gemm_to_matmul"},
    .run = run,
    .examples =
        {{"there and back around a layer",
          "graph { input x: f32[batch,5,4]; const w: f32[4,6] = seeded(0.5, 1); const b: f32[6] = seeded(0.5, 2); a = "
          "transpose(x) "
          "{perm=[1, 0, 2]}; c = matmul(a, w); d = add(c, b); e = relu(d); y = transpose(e) {perm=[1, 0, 2]}; output y "
          "}",
          "graph { input x: f32[batch,5,4]; const w: f32[4,6] = seeded(0.5, 1); const b: f32[6] = seeded(0.5, 2); c = "
          "matmul(x, w); d "
          "= add(c, b); y = relu(d); output y }"},
         {"heads split by two reshapes",
          "graph { input x: f32[batch,5,12]; const s: i64[3] = [5, -1, 4]; const u: i64[4] = [-1, 3, 5, 4]; a = "
          "transpose(x) "
          "{perm=[1, 0, 2]}; b = reshape(a, s); c = transpose(b) {perm=[1, 0, 2]}; y = reshape(c, u); output y }",
          "graph { input x: f32[batch,5,12]; const s: i64[4] = [-1, 5, 3, 4]; a = reshape(x, s); y = transpose(a) "
          "{perm=[0, 2, 1, "
          "3]}; output y }"},
         {"a slice of packed projections",
          "graph { input x: f32[5,2,3,4]; const i: i64[] = [1]; const o: i64[1] = [0]; const k: i64[1] = [-2]; a = "
          "transpose(x) "
          "{perm=[1, 0, 2, 3]}; b = unsqueeze(a, o); c = transpose(b) {perm=[3, 1, 2, 0, 4]}; d = squeeze(c, k); y = "
          "gather(d, "
          "i) {axis=0}; output y }",
          "graph { input x: f32[5,2,3,4]; const i: i64[] = [1]; g = gather(x, i) {axis=2}; y = transpose(g) {perm=[1, "
          "0, 2]}; "
          "output y }"},
         {"a split and the same transpose on both sides of a sum",
          "graph { input x: f32[3,4,2]; input z: f32[3,2,2]; a = transpose(x) {perm=[1, 0, 2]}; b, c = split(a) "
          "{axis=0, "
          "num_outputs=2}; d = transpose(z) {perm=[1, 0, 2]}; y = add(b, d); output y; output c }",
          "graph { input x: f32[3,4,2]; input z: f32[3,2,2]; b, c = split(x) {axis=1, num_outputs=2}; f = "
          "transpose(c) {perm=[1, 0, 2]}; e = add(b, z); y = transpose(e) {perm=[1, 0, 2]}; output y; output f as "
          "\"c\" }"},
         {"what needs the order keeps it",
          "graph { input x: f32[2,3,4]; const s: i64[1] = [24]; a = transpose(x) {perm=[0, 2, 1]}; y = reshape(a, s); "
          "output y }",
          "graph { input x: f32[2,3,4]; const s: i64[1] = [24]; a = transpose(x) {perm=[0, 2, 1]}; y = reshape(a, s); "
          "output y }"}},
}};

}  // namespace peri::passes
