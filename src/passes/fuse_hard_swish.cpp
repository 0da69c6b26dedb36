// Pass fuse_hard_swish: x * clip(x + 3, 0, 6) / 6 and x * hard_sigmoid(x) become one hard_swish.
#include "passes/entry.hpp"
#include "passes/rewrite/factors.hpp"

namespace peri::passes {
namespace {

// scalar * gate = max(0, min(1, x/6 + 1/2))
bool is_gate(const Rewriter& w, ir::Value* gate, const ir::Value* x, double scalar,
             std::vector<const ir::Node*>* nodes) {
  if (ir::Node* h = made_by(gate, "hard_sigmoid")) {
    nodes->push_back(h);
    return h->in(0) == x && near(h->f("alpha", 0.2), 1.0 / 6, 1e-6) && h->f("beta", 0.5) == 0.5 &&
           near(scalar, 1, 1e-6);
  }
  const Affine outer = affine_of(w, gate);
  ir::Node* clip = made_by(outer.x, "clip");
  if (!clip || outer.offset != 0 || scalar_of(clip->in(1)) != 0.0) return false;
  const Affine inner = affine_of(w, clip->in(0));
  const auto top = scalar_of(clip->in(2));
  nodes->insert(nodes->end(), outer.nodes.begin(), outer.nodes.end());
  nodes->insert(nodes->end(), inner.nodes.begin(), inner.nodes.end());
  nodes->push_back(clip);
  if (!top || inner.x != x || !near(scalar * outer.slope * *top, 1, 1e-6)) return false;
  return near(inner.slope * 6, *top, 1e-6) && near(inner.offset * 2, *top, 1e-6);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "mul" && n->op != "div") return false;
  const Product p = product_of(w, n->out());
  if (p.factors.size() != 2) return false;
  for (size_t k : {0, 1}) {
    ir::Value* x = p.factors[1 - k];
    std::vector<const ir::Node*> nodes = p.nodes;
    if (!is_gate(w, p.factors[k], x, p.scalar, &nodes)) continue;
    w.standing_for(nodes);
    PERI_ASSIGN(ir::Value * y, w.make("hard_swish", {x}, {}, n->out()));
    w.replace(n->out(), y);
    return true;
  }
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fuse_hard_swish", rule); }

}  // namespace

extern const Entry fuse_hard_swish_entry;
const Entry fuse_hard_swish_entry{{
    .name = "fuse_hard_swish",
    .contract = "Every x * max(0, min(1, x/6 + 1/2)), written with hard_sigmoid or with clip, is one hard_swish.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"hard_sigmoid",
                  "graph { input x: f32[2,9]; a = hard_sigmoid(x) {alpha=0.16666666666666666, beta=0.5}; y = mul(x, "
                  "a); output y }",
                  "graph { input x: f32[2,9]; y = hard_swish(x); output y }"},
                 {"clip",
                  "graph { input x: f32[2,9]; const t: f32[] = [3.0]; const z: f32[] = [0.0]; const s: f32[] = [6.0]; "
                  "a = add(x, "
                  "t); b = clip(a, z, s); c = mul(x, b); y = div(c, s); output y }",
                  "graph { input x: f32[2,9]; y = hard_swish(x); output y }"},
                 {"a plain hard_sigmoid stays",
                  "graph { input x: f32[2,9]; a = hard_sigmoid(x); y = mul(x, a); output y }",
                  "graph { input x: f32[2,9]; a = hard_sigmoid(x); y = mul(x, a); output y }"}},
}};

}  // namespace peri::passes
