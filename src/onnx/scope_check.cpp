// One pass that reads every node and collects names, one that resolves them; sorting only where the file is unsorted.
#include "onnx/scope_check.hpp"

#include <queue>

#include "onnx/proto_reader.hpp"

namespace peri::onnx {

namespace {
constexpr int kMaxGraphDepth = 32;

std::string quoted(std::string_view name) { return "'" + std::string(name.substr(0, 200)) + "'"; }

Status check_subgraphs(const ScopeCheck& scope, const NodeRecord& node, const OuterNames& outer) {
  for (const AttrRecord& a : node.attrs) {
    if (a.type != AttrType::kGraph && a.type != AttrType::kGraphs) continue;
    if (scope.depth >= kMaxGraphDepth)
      return invalid("graphs are nested deeper than %d", kMaxGraphDepth).at_node(node.label());
    std::vector<Body> bodies = a.messages;
    if (a.type == AttrType::kGraph && a.ref_name.empty()) bodies.push_back(a.message);
    for (const Body& body : bodies) {
      PERI_ASSIGN(const GraphRecord g, read_graph(body, scope.base));
      ScopeCheck inner{scope.base, g.nodes, {}, {}, &outer, scope.depth + 1, scope.visit};
      for (const Body& b : g.inputs) {
        PERI_ASSIGN(const ValueRecord v, read_value(b, scope.base));
        inner.given.push_back(v.name);
      }
      for (const Body& b : g.initializers) {
        PERI_ASSIGN(const TensorRecord t, read_tensor(b, scope.base));
        inner.given.push_back(t.name);
      }
      for (const Body& b : g.outputs) {
        PERI_ASSIGN(const ValueRecord v, read_value(b, scope.base));
        inner.outputs.push_back(v.name);
      }
      PERI_TRY(check_scope(inner));
    }
  }
  return Ok{};
}

// Kahn's algorithm, smallest index first, over edges producer → user.
Result<std::vector<uint32_t>> sorted(const ScopeCheck& scope, const NameTable& names) {
  std::vector<std::vector<uint32_t>> users(scope.nodes.size());
  std::vector<uint32_t> missing(scope.nodes.size());
  for (uint32_t i = 0; i < scope.nodes.size(); ++i) {
    PERI_ASSIGN(const NodeRecord node, read_node(scope.nodes[i], scope.base));
    for (std::string_view in : node.inputs) {
      if (in.empty() || !names.contains(in) || names.producer(in) == NameTable::kGiven) continue;
      users[names.producer(in)].push_back(i);
      ++missing[i];
    }
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < missing.size(); ++i)
    if (missing[i] == 0) ready.push(i);
  while (!ready.empty()) {
    const uint32_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const uint32_t user : users[i])
      if (--missing[user] == 0) ready.push(user);
  }
  for (uint32_t i = 0; i < missing.size() && order.size() < missing.size(); ++i) {
    if (missing[i] == 0) continue;
    PERI_ASSIGN(const NodeRecord node, read_node(scope.nodes[i], scope.base));
    return invalid("the graph has a cycle")
        .at_node(node.label())
        .expecting("nodes that can be put in order")
        .advise("a value may not depend on itself");
  }
  return order;
}
}  // namespace

bool OuterNames::contains(std::string_view name) const {
  for (const OuterNames* o = this; o; o = o->parent)
    if (o->all || (o->names && o->names->contains(name))) return true;
  return false;
}

namespace {
Status collect_names(const ScopeCheck& scope, NameTable* names) {
  for (std::string_view name : scope.given) names->insert(name, NameTable::kGiven);
  for (uint32_t i = 0; i < scope.nodes.size(); ++i) {
    PERI_ASSIGN(const NodeRecord node, read_node(scope.nodes[i], scope.base));
    if (node.op.empty()) return invalid("node %u has no operator", i).at_node(node.label());
    bool made = false;
    for (std::string_view out : node.outputs) {
      if (out.empty()) continue;
      made = true;
      if (!names->insert(out, i))
        return invalid("%s is made twice", quoted(out).c_str())
            .at_node(node.label())
            .expecting("one node, input or initializer for each name");
    }
    if (!made) return invalid("a node has no output").at_node(node.label());
  }
  return Ok{};
}
}  // namespace

Result<std::vector<uint32_t>> check_scope(const ScopeCheck& scope) {
  NameTable names(scope.given.size() + scope.nodes.size());
  PERI_TRY(collect_names(scope, &names));
  const OuterNames outer{scope.outer, &names, false};
  const uint32_t count = static_cast<uint32_t>(scope.nodes.size());
  bool in_order = true;
  for (uint32_t i = 0; i < count; ++i) {
    PERI_ASSIGN(const NodeRecord node, read_node(scope.nodes[i], scope.base));
    for (std::string_view in : node.inputs) {
      if (in.empty()) continue;
      if (names.contains(in)) {
        const uint32_t producer = names.producer(in);
        in_order = in_order && (producer == NameTable::kGiven || producer < i);
      } else if (!(scope.outer && scope.outer->contains(in))) {
        return invalid("input %s is not defined", quoted(in).c_str())
            .at_node(node.label())
            .expecting("an input, an initializer or the output of a node");
      }
    }
    PERI_TRY(check_subgraphs(scope, node, outer));
    PERI_TRY(scope.visit(node, scope.depth));
  }
  for (std::string_view out : scope.outputs) {
    if (names.contains(out) || (scope.outer && scope.outer->contains(out))) continue;
    return invalid("output %s is not defined", quoted(out).c_str())
        .expecting("an input, an initializer or the output of a node");
  }
  if (!in_order) return sorted(scope, names);
  std::vector<uint32_t> order(count);
  for (uint32_t i = 0; i < count; ++i) order[i] = i;
  return order;
}

}  // namespace peri::onnx
