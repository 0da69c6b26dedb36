// Pass fuse_swish: x * sigmoid(a x) becomes one swish.
#include "passes/entry.hpp"
#include "passes/rewrite/factors.hpp"

namespace peri::passes {
namespace {

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "mul" || !ops::contains(ops::kFloats, n->out()->type.dtype)) return false;
  for (size_t k : {0, 1}) {
    ir::Node* gate = made_by(n->in(k), "sigmoid");
    if (!gate || !w.used_once(gate->out()) || !same_shape(n->in(1 - k), n->out())) continue;
    ir::Value* x = n->in(1 - k);
    double alpha = 1;
    std::vector<const ir::Node*> nodes = {n, gate};
    if (gate->in(0) != x) {
      const Product p = product_of(w, gate->in(0));
      if (p.factors.size() != 1 || p.factors[0] != x) continue;
      alpha = p.scalar;
      nodes.insert(nodes.end(), p.nodes.begin(), p.nodes.end());
    }
    w.standing_for(nodes);
    ir::Attrs attrs;
    if (alpha != 1) attrs["alpha"] = alpha;
    PERI_ASSIGN(ir::Value * y, w.make("swish", {x}, std::move(attrs), n->out()));
    w.replace(n->out(), y);
    return true;
  }
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fuse_swish", rule); }

}  // namespace

extern const Entry fuse_swish_entry;
const Entry fuse_swish_entry{{
    .name = "fuse_swish",
    .contract = "Every x * sigmoid(a x) with a constant a, whose sigmoid nobody else reads, is one swish, so that it "
                "fits into an "
                "epilogue. Gates whose sigmoid reads something else (squeeze-excite) stay products.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"SiLU", "graph { input x: f32[2,9]; a = sigmoid(x); y = mul(x, a); output y }",
                  "graph { input x: f32[2,9]; y = swish(x); output y }"},
                 {"the quick form of gelu",
                  "graph { input x: f32[2,9]; const c: f32[] = [1.75]; b = mul(c, x); a = sigmoid(b); y = mul(a, x); "
                  "output y }",
                  "graph { input x: f32[2,9]; y = swish(x) {alpha=1.75}; output y }"},
                 {"squeeze-excite stays",
                  "graph { input x: f32[2,9,4,4]; input s: f32[2,9,1,1]; a = sigmoid(s); y = mul(a, x); output y }",
                  "graph { input x: f32[2,9,4,4]; input s: f32[2,9,1,1]; a = sigmoid(s); y = mul(a, x); output y }"}},
}};

}  // namespace peri::passes
