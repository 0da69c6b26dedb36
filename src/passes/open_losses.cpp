// Pass open_losses: a cross entropy becomes the negative log likelihood of a log softmax.
#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "softmax_cross_entropy_loss") return false;
  w.standing_for({n});
  const ir::Value* like = n->outputs.size() > 1 && n->outputs[1] ? n->outputs[1] : n->in(0);
  PERI_ASSIGN(ir::Value * log_p, w.make("log_softmax", {n->in(0)}, {{"axis", int64_t{1}}}, like));
  std::vector<ir::Value*> inputs = {log_p, n->in(1)};
  if (n->in(2)) inputs.push_back(n->in(2));
  PERI_ASSIGN(ir::Value * loss, w.make("negative_log_likelihood_loss", std::move(inputs), n->attrs, n->out()));
  if (n->outputs.size() > 1 && n->outputs[1]) w.replace(n->outputs[1], log_p);
  w.replace(n->out(), loss);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_losses", rule); }

}  // namespace

extern const Entry open_losses_entry;
const Entry open_losses_entry{{
    .name = "open_losses",
    .contract = "No softmax_cross_entropy_loss is left: it is a log_softmax over the classes, which is its second "
                "result, and the negative_log_likelihood_loss of that.",
    .follows = {},
    .run = run,
    .examples = {{"a mean by weight",
                  "graph { input x: f32[4,3]; input t: i64[4]; input c: f32[3]; y = softmax_cross_entropy_loss(x, t, "
                  "c) {ignore_index=1}; output y }",
                  "graph { input x: f32[4,3]; input t: i64[4]; input c: f32[3]; p = log_softmax(x) {axis=1}; y = "
                  "negative_log_likelihood_loss(p, t, c) {ignore_index=1}; output y }"}},
}};

}  // namespace peri::passes
