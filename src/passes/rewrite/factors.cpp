// Products and affine forms.
#include "passes/rewrite/factors.hpp"

#include <cmath>

namespace peri::passes {

Product product_of(const Rewriter& w, ir::Value* v, bool open_first) {
  Product out;
  std::vector<ir::Value*> work = {v};
  while (!work.empty()) {
    ir::Value* x = work.back();
    work.pop_back();
    ir::Node* n = x->producer;
    const bool may_open = n && ops::contains(ops::kFloats, x->type.dtype) && (w.used_once(x) || (open_first && x == v));
    if (may_open && (n->op == "mul" || n->op == "div")) {
      if (const auto s = with_scalar(*n); s && s->scalar != 0) {
        out.scalar *= n->op == "mul" ? s->scalar : 1 / s->scalar;
        work.push_back(s->x);
        out.nodes.push_back(n);
        continue;
      }
      if (n->op == "mul" && same_shape(n->in(0), x) && same_shape(n->in(1), x)) {
        work.insert(work.end(), {n->in(1), n->in(0)});
        out.nodes.push_back(n);
        continue;
      }
    }
    out.factors.push_back(x);
  }
  return out;
}

Affine affine_of(const Rewriter& w, ir::Value* v) {
  Affine out;
  out.x = v;
  while (out.x->producer && w.used_once(out.x)) {
    const ir::Node& n = *out.x->producer;
    const auto s = with_scalar(n);
    if (!s) break;
    if (n.op == "mul") {
      out.slope *= s->scalar;
    } else if (n.op == "div" && s->scalar != 0) {
      out.slope /= s->scalar;
    } else if (n.op == "add") {
      out.offset += out.slope * s->scalar;
    } else if (n.op == "sub") {
      out.offset -= out.slope * s->scalar;
    } else {
      break;
    }
    out.nodes.push_back(&n);
    out.x = s->x;
  }
  return out;
}

bool near(double a, double b, double relative) { return std::fabs(a - b) <= relative * std::fabs(b); }

ir::Value* other_factor(const Product& p, const ir::Value* one) {
  if (p.factors.size() != 2) return nullptr;
  return p.factors[0] == one ? p.factors[1] : p.factors[1] == one ? p.factors[0] : nullptr;
}

}  // namespace peri::passes
