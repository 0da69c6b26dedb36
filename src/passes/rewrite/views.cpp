// Chains of views.
#include "passes/rewrite/views.hpp"

namespace peri::passes {

bool is_reshape_like(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && op->view && !op->elementwise;
}

namespace {
Result<bool> merge_reshapes(Rewriter& w, ir::Node* n) {
  ir::Value *x = n->in(0), *y = n->out();
  if (!x->type.known() || x->type.dtype == DType::kString) return false;
  if (same_shape(x, y)) {
    w.replace(y, x);
    return true;
  }
  ir::Node* before = x->producer;
  if (!before || !is_reshape_like(*before)) return false;
  ir::Value* source = before->in(0);
  w.standing_for({before, n});
  PERI_ASSIGN(ir::Value * merged, w.reshape(source, *y->type.shape, y));
  w.replace(y, merged);
  return true;
}

bool moves_only_ones(const ir::Node& transpose, const std::vector<int64_t>& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if ((*transpose.in(0)->type.shape)[static_cast<size_t>(axis)].is_const(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

Result<bool> merge_transposes(Rewriter& w, ir::Node* n) {
  const std::vector<int64_t> perm = perm_of(*n);
  ir::Value* y = n->out();
  if (is_identity(perm)) {
    w.replace(y, n->in(0));
    return true;
  }
  if (ir::Node* before = made_by(n->in(0), "transpose")) {
    const std::vector<int64_t> first = perm_of(*before);
    std::vector<int64_t> both;
    for (int64_t axis : perm) both.push_back(first[static_cast<size_t>(axis)]);
    w.standing_for({before, n});
    PERI_ASSIGN(ir::Value * merged, w.transpose(before->in(0), both, y));
    w.replace(y, merged);
    return true;
  }
  if (!moves_only_ones(*n, perm) || y->type.dtype == DType::kString) return false;
  PERI_ASSIGN(ir::Value * view, w.reshape(n->in(0), *y->type.shape, y));
  w.replace(y, view);
  return true;
}

bool divides(const Dim& part, const Dim& whole) { return floordiv(whole, part) * part == whole; }
}  // namespace

Result<bool> merge_views(Rewriter& w, ir::Node* n) {
  if (n->op == "transpose") return merge_transposes(w, n);
  if (is_reshape_like(*n)) return merge_reshapes(w, n);
  return false;
}

std::optional<std::vector<Run>> runs_of(const Shape& from, const Shape& to) {
  std::vector<size_t> axes;
  for (size_t k = 0; k < from.size(); ++k) {
    if (from[k].is_const(0)) return std::nullopt;
    if (!from[k].is_const(1)) axes.push_back(k);
  }
  std::vector<Run> runs;
  size_t i = 0, j = 0;
  while (i < axes.size()) {
    Run run;
    Dim a = from[axes[i]], b = 1;
    run.from.push_back(axes[i++]);
    while (!(a == b)) {
      if (divides(b, a) && j < to.size()) {
        if (to[j].is_const(0)) return std::nullopt;
        b = b * to[j];
        run.to.push_back(j++);
      } else if (divides(a, b) && i < axes.size()) {
        a = a * from[axes[i]];
        run.from.push_back(axes[i++]);
      } else {
        return std::nullopt;
      }
    }
    runs.push_back(std::move(run));
  }
  for (; j < to.size(); ++j) {
    if (!to[j].is_const(1)) return std::nullopt;
    if (runs.empty()) runs.emplace_back();
    runs.back().to.push_back(j);
  }
  return runs;
}

}  // namespace peri::passes
