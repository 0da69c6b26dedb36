// Pass eliminate_duplicates: nodes that compute the same are merged; so are equal small constants.
#include <map>
#include <unordered_map>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {
constexpr int64_t kSmallBytes = 4096;  // scalars, shapes and axes; weights are not hashed. Not varied

void share_constants(Rewriter& w) {
  std::unordered_map<uint64_t, std::vector<ir::Value*>> seen;
  for (ir::Value* v : w.graph().constants()) {
    if (v->constant->dtype() == DType::kString || static_cast<int64_t>(v->constant->bytes().size()) > kSmallBytes)
      continue;
    auto& bucket = seen[v->constant->content_hash()];
    bool found = false;
    for (ir::Value* first : bucket) {
      if (!first->constant->same_content(*v->constant)) continue;
      w.replace(v, first);
      found = true;
      break;
    }
    if (!found) bucket.push_back(v);
  }
}

bool same_node(const ir::Node& a, const ir::Node& b) {
  if (a.op != b.op || a.inputs != b.inputs || a.outputs.size() != b.outputs.size() || a.attrs.size() != b.attrs.size())
    return false;
  for (auto x = a.attrs.begin(), y = b.attrs.begin(); x != a.attrs.end(); ++x, ++y) {
    const bool graphs = std::holds_alternative<std::shared_ptr<ir::Graph>>(x->second) ||
                        std::holds_alternative<std::vector<std::shared_ptr<ir::Graph>>>(x->second);
    if (graphs || x->first != y->first || !ir::same_attr(x->second, y->second)) return false;
  }
  return true;
}

// A dimension that data decides has two names where two nodes that are one made it: dims_constants take the first.
void rename_dims(ir::Graph& graph, const ir::Type& from, const ir::Type& to) {
  std::map<std::string, Dim, std::less<>> names;
  for (size_t k = 0; k < from.rank(); ++k)
    if (const Dim& d = (*from.shape)[k]; d.is_symbol() && !(d == (*to.shape)[k]))
      names.emplace(d.symbol_name(), (*to.shape)[k]);
  if (names.empty()) return;
  for (ir::Node* n : graph.nodes)
    for (auto& [key, attr] : n->attrs)
      if (auto* dims = std::get_if<std::vector<Dim>>(&attr))
        for (Dim& d : *dims) d = d.substitute(names);
}

size_t hash_of(const ir::Node& n) {
  size_t h = std::hash<std::string>()(n.op);
  for (const ir::Value* v : n.inputs) h = h * 1099511628211u + static_cast<size_t>(v ? v->id + 1 : 0);
  return h;
}

Result<int64_t> run(ir::Graph& graph) {
  Rewriter w(graph, "eliminate_duplicates");
  share_constants(w);
  std::unordered_map<size_t, std::vector<ir::Node*>> seen;
  for (ir::Node* n : w.nodes()) {
    if (!w.live(n)) continue;
    auto& bucket = seen[hash_of(*n)];
    ir::Node* first = nullptr;
    for (ir::Node* m : bucket)
      if (same_node(*m, *n)) first = m;
    if (!first) {
      bucket.push_back(n);
      continue;
    }
    for (const std::string& s : n->origins) first->origins.push_back(s);
    for (size_t k = 0; k < n->outputs.size(); ++k) rename_dims(graph, n->outputs[k]->type, first->outputs[k]->type);
    for (size_t k = 0; k < n->outputs.size(); ++k)
      if (!n->outputs[k]->users.empty() || graph.is_output(n->outputs[k])) w.replace(n->outputs[k], first->outputs[k]);
  }
  return w.count();
}

}  // namespace

extern const Entry eliminate_duplicates_entry;
const Entry eliminate_duplicates_entry{{
    .name = "eliminate_duplicates",
    .contract = "No two nodes with the same op, inputs and attributes are left, and no two constants of up to 4 KiB "
                "with the same "
                "content. It stands after folding, which makes equal what only computed equal sizes.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"twins of twins",
          "graph { input x: f32[2,3]; const a: f32[] = [2.0]; const b: f32[] = [2.0]; p = mul(x, a); q = mul(x, b); r "
          "= "
          "relu(p); s = relu(q); y = add(r, s); output y }",
          "graph { input x: f32[2,3]; const a: f32[] = [2.0]; p = mul(x, a); r = relu(p); y = add(r, r); output y }"},
         {"other attributes, other nodes",
          "graph { input x: f32[2,3]; a = softmax(x) {axis=0}; b = softmax(x) {axis=1}; y = add(a, b); output y }",
          "graph { input x: f32[2,3]; a = softmax(x) {axis=0}; b = softmax(x) {axis=1}; y = add(a, b); output y }"},
         {"two outputs become one value", "graph { input x: f32[2]; a = relu(x); b = relu(x); output a; output b }",
          "graph { input x: f32[2]; a = relu(x); output a; output a as \"b\" }"}},
}};

}  // namespace peri::passes
