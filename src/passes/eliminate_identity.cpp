// Pass eliminate_identity: removes identity nodes and dropouts of inference; their users read their inputs.
#include "passes/entry.hpp"

namespace peri::passes {
namespace {
// A dropout that is known not to train; one whose mask is read stays, for the mask.
bool passes_on(const ir::Node& n) {
  if (n.op == "identity") return true;
  if (n.op != "dropout") return false;
  const ir::Value* training = n.in(2);
  return !training || (training->constant && training->constant->numel() == 1 && training->constant->i64(0) == 0);
}

Result<int64_t> run(ir::Graph& graph) {
  int64_t rewrites = 0;
  for (ir::Node* n : graph.nodes) {
    if (!passes_on(*n)) continue;
    if (n->out()->users.empty() && !graph.is_output(n->out())) continue;
    graph.replace_uses(n->out(), n->in(0));
    ++rewrites;
  }
  return rewrites;
}
}  // namespace

extern const Entry eliminate_identity_entry;
const Entry eliminate_identity_entry{{
    .name = "eliminate_identity",
    .contract = "No identity node is left, nor a dropout that is known not to train: users and graph outputs read its "
                "input; of a dropout whose mask is read the mask alone is left. It stands first, so that no later "
                "pattern has to look through identities.",
    .run = run,
    .examples = {{"chain",
                  "graph { input x: f32[2]; a = identity(x); b = identity(a); y = relu(b); z = identity(y); output z }",
                  "graph { input x: f32[2]; y = relu(x); output y as \"z\" }"},
                 {"dropout of inference",
                  "graph { input x: f32[2]; const r: f32[] = [0.5]; const t: bool[] = [0]; a = dropout(x, r, t); y = "
                  "relu(a); output y }",
                  "graph { input x: f32[2]; y = relu(x); output y }"}},
}};

}  // namespace peri::passes
