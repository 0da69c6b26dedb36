// Pass fold_branches: an if with a known condition becomes the branch taken; constants used by bodies move into them.
#include <algorithm>

#include "ir/bodies.hpp"
#include "ops/control/bodies.hpp"
#include "passes/entry.hpp"

namespace peri::passes {
namespace {

// The branch that is taken, in the place of the node.
bool take_branch(ir::Graph& graph, ir::Node* n) {
  if (n->op != "if") return false;
  const std::optional<int64_t> taken = ops::known_element(*n->in(0));
  if (!taken) return false;
  const auto body = std::get<std::shared_ptr<ir::Graph>>(n->attrs.at(*taken ? "then_branch" : "else_branch"));
  const auto at = static_cast<size_t>(std::find(graph.nodes.begin(), graph.nodes.end(), n) - graph.nodes.begin());
  const std::vector<ir::Value*> arguments(n->inputs.begin() + 1, n->inputs.end());
  size_t made = 0;
  const std::vector<ir::Value*> results = ir::inline_body(graph, *body, arguments, at, &made);
  for (size_t k = at; k < at + made; ++k) graph.nodes[k]->touched_by.emplace_back("fold_branches");
  for (size_t k = 0; k < results.size(); ++k) graph.replace_uses(n->outputs[k], results[k]);
  graph.erase(n);
  return true;
}

// Arguments that every body of the node takes as they are: those behind the condition, or the carried values.
size_t first_capture(const ir::Node& n) { return n.op == "if" ? 1 : 2 + static_cast<size_t>(n.i("carried")); }

// Body inputs stand behind the condition of an if, at the places of the node's in a loop.
size_t place_in_body(const ir::Node& n, size_t input) { return n.op == "if" ? input - 1 : input; }

int64_t keep_constants_inside(ir::Graph& graph, ir::Node* n) {
  int64_t changed = 0;
  for (size_t k = first_capture(*n); k < n->inputs.size(); ++k) {
    const ir::Value* v = n->inputs[k];
    if (!v->constant) continue;
    for (auto& [key, body] : ir::bodies_of(*n)) {
      ir::Value* in = body->inputs[place_in_body(*n, k)];
      if (in->users.empty() && !body->is_output(in)) continue;
      ir::Value* c = body->add_constant(v->name, *v->constant);
      c->type.layout = v->type.layout;
      body->replace_uses(in, c);
      ++changed;
    }
  }
  for (size_t k = n->inputs.size(); k-- > first_capture(*n);) {
    const size_t at = place_in_body(*n, k);
    const auto bodies = ir::bodies_of(*n);
    const bool unread = std::all_of(bodies.begin(), bodies.end(), [&](const auto& b) {
      return b.second->inputs[at]->users.empty() && !b.second->is_output(b.second->inputs[at]);
    });
    if (!unread) continue;
    for (const auto& [key, body] : bodies) ir::drop_input(*body, at);
    graph.set_input(n, k, nullptr);
    n->inputs.erase(n->inputs.begin() + static_cast<std::ptrdiff_t>(k));
    ++changed;
  }
  if (changed) n->touched_by.emplace_back("fold_branches");
  return changed;
}

Result<int64_t> run(ir::Graph& graph) {
  int64_t changed = 0;
  for (ir::Node* n : std::vector<ir::Node*>(graph.nodes)) {
    if (!ir::has_bodies(*n)) continue;
    if (take_branch(graph, n))
      ++changed;
    else
      changed += keep_constants_inside(graph, n);
  }
  return changed;
}
}  // namespace

extern const Entry fold_branches_entry;
const Entry fold_branches_entry{{
    .name = "fold_branches",
    .contract = "No if is left whose condition is known, no body takes a constant or what it does not read as an "
                "argument. It stands behind folding, which makes conditions known, and before what reads constants: "
                "weights of a body are packed there.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"a known condition",
          "graph { const c: bool[] = [0]; input x: f32[2,1]; y = if(c, x) {then_branch=graph { input a: f32[2,1]; "
          "const i: i64[1] = [1]; b = squeeze(a, i); output b }, else_branch=graph { input a: f32[2,1]; b = relu(a); "
          "output b }}; output y }",
          "graph { input x: f32[2,1]; y = relu(x); output y }"},
         {"constants and what nobody reads",
          "graph { input c: bool[]; input x: f32[2]; const w: f32[2] = [1.0, 2.0]; input z: f32[3]; y = if(c, x, w, z) "
          "{then_branch=graph { input a: f32[2]; input v: f32[2]; input u: f32[3]; b = add(a, v); output b }, "
          "else_branch=graph { input a: f32[2]; input v: f32[2]; input u: f32[3]; output a }}; output y }",
          "graph { input c: bool[]; input x: f32[2]; input z: f32[3]; y = if(c, x) {then_branch=graph { input a: "
          "f32[2]; const w: f32[2] = [1.0, 2.0]; b = add(a, w); output b }, else_branch=graph { input a: f32[2]; "
          "output a }}; output y }"},
         {"what is carried stays",
          "graph { const t: i64[] = [3]; input x: f32[2]; const s: f32[2] = [0.0, 0.0]; y = loop(t, _, s, x) "
          "{carried=1, body=graph { input i: i64[]; input c: bool[]; input v: f32[2]; input w: f32[2]; s = add(v, w); "
          "output c; output s }}; output y }",
          "graph { const t: i64[] = [3]; input x: f32[2]; const s: f32[2] = [0.0, 0.0]; y = loop(t, _, s, x) "
          "{carried=1, body=graph { input i: i64[]; input c: bool[]; input v: f32[2]; input w: f32[2]; s = add(v, w); "
          "output c; output s }}; output y }"}},
}};

}  // namespace peri::passes
