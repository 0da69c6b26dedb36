// Pass eliminate_identity: no identity node is left; its users read what it read.
#include "passes/entry.hpp"

namespace peri::passes {
namespace {
Result<int64_t> run(ir::Graph& graph) {
  int64_t rewrites = 0;
  for (ir::Node* n : graph.nodes) {
    if (n->op != "identity" || n->out()->users.empty()) {
      if (n->op != "identity" || !graph.is_output(n->out())) continue;
    }
    graph.replace_uses(n->out(), n->in(0));
    ++rewrites;
  }
  return rewrites;
}
}  // namespace

extern const Entry eliminate_identity_entry;
const Entry eliminate_identity_entry{{
    .name = "eliminate_identity",
    .contract = "No identity node is left: users and graph outputs read its input. It stands first, so that no later "
                "pattern has to look through identities.",
    .run = run,
    .examples = {{"chain",
                  "graph { input x: f32[2]; a = identity(x); b = identity(a); y = relu(b); z = identity(y); output z }",
                  "graph { input x: f32[2]; y = relu(x); output y as \"z\" }"}},
}};

}  // namespace peri::passes
