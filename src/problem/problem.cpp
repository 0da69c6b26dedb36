// Identity, hash, and the text of regions that are no line.
#include "problem/problem.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "ir/bodies.hpp"
#include "ops/entry.hpp"
#include "problem/line.hpp"

namespace peri::problem {

std::vector<bool> weights_by_role(const ir::Graph& graph) {
  std::vector<bool> out;
  for (const ir::Value* v : graph.inputs) {
    bool weight = !v->users.empty();
    for (const ir::Node* n : v->users)
      for (size_t port = 0; port < n->inputs.size() && weight; ++port) {
        if (n->inputs[port] != v) continue;
        const ops::Role role = ops::role_of(*n, port);
        weight = role != ops::Role::kData && role != ops::Role::kIndex;
      }
    out.push_back(weight);
  }
  return out;
}

ir::Graph canonical(const ir::Graph& graph) {
  ir::Graph g = graph.clone();
  g.name.clear();
  std::vector<std::pair<ir::Value*, std::string>> names;
  std::unordered_set<const ir::Value*> named;
  const auto add = [&](ir::Value* v, const char* stem) {
    names.emplace_back(v, stem + std::to_string(names.size()));
    named.insert(v);
  };
  for (ir::Value* v : g.inputs) add(v, "x");
  for (ir::Node* n : g.nodes) {
    n->name.clear();
    n->origins.clear();
    n->touched_by.clear();
    for (ir::Value* v : n->inputs)
      if (v && !v->producer && !named.contains(v)) add(v, "c");
    for (ir::Value* v : n->outputs) add(v, ops::states_sizes(*n) ? "c" : "t");
  }
  for (ir::Value* v : g.outputs)
    if (!named.contains(v)) add(v, "c");
  for (size_t k = 0; k < names.size(); ++k) g.rename(names[k].first, "#" + std::to_string(k));
  for (const auto& [v, name] : names) g.rename(v, name);
  std::unordered_set<std::string> taken;
  for (size_t k = 0; k < g.outputs.size(); ++k) g.output_names[k] = ir::unique_name(g.outputs[k]->name, &taken);
  return g;
}

namespace {
std::string known_text(const ir::Graph& graph) {
  std::string out;
  for (const ir::Value* v : graph.inputs)
    if (v->content) out += " known=" + v->name + ":" + shape_text(*v->content);
  return out;
}

// Which inputs are weights, and what is known of their elements.
std::string marks(const ir::Graph& graph, const std::vector<bool>& weights) {
  return facts_text(graph, weights, std::vector<bool>(graph.inputs.size(), false)) + known_text(graph);
}

Status take_known(std::string_view fact, ir::Graph* graph) {
  const size_t colon = fact.find(':');
  ir::Value* v = colon == std::string_view::npos ? nullptr : graph->find(fact.substr(0, colon));
  if (!v || !v->is_input) return invalid("'known=%s' names no input", std::string(fact).c_str());
  const std::string_view list = fact.substr(colon + 1);
  if (!list.starts_with("[") || !list.ends_with("]")) return invalid("'known=' without a list").but_found(fact);
  v->content.emplace();
  for (const std::string_view element : parts_of(list.substr(1, list.size() - 2))) {
    PERI_ASSIGN(const Shape one, parse_shape("[" + std::string(element) + "]"));
    v->content->insert(v->content->end(), one.begin(), one.end());
  }
  return Ok{};
}

Result<Problem> parse_region(std::string_view head, std::string_view graph_text) {
  Problem p;
  PERI_ASSIGN(p.graph, ir::parse_graph(graph_text));
  p.weights.assign(p.graph.inputs.size(), false);
  for (const std::string_view word : words_of(head)) {
    if (word.starts_with("known=")) {
      PERI_TRY(take_known(word.substr(6), &p.graph));
      continue;
    }
    PERI_ASSIGN(const bool taken, take_fact(word, p.graph, &p));
    if (!taken)
      return invalid("a word before the graph is not understood")
          .expecting("weights=NAMES or known=NAME:[...]")
          .but_found(std::string(word));
  }
  return p;
}

// Types as the ops infer them; those that were stated must be the same.
Status infer(ir::Graph* g) {
  std::vector<std::pair<const ir::Value*, ir::Type>> stated;
  for (const auto& v : g->values())
    if (v->type.known()) stated.emplace_back(v.get(), v->type);
  PERI_TRY(ops::infer_graph(*g));
  for (const auto& [v, type] : stated)
    if (!(type == v->type))
      return invalid("'%s' does not have the type it states", v->name.c_str())
          .expecting(ir::type_text(v->type))
          .but_found(ir::type_text(type));
  return Ok{};
}
}  // namespace

std::string identity(const ir::Graph& graph, const std::vector<bool>& weights) {
  return ir::print(graph, {1024, false}) + marks(graph, weights);
}

std::string hash(const ir::Graph& graph, const std::vector<bool>& weights) {
  if (weights.empty()) return hex64(hash_text(ir::print(graph, {1024, false})));
  return hex64(hash_text(identity(graph, weights)));
}

std::string text(const ir::Graph& graph, const std::vector<bool>& weights) {
  if (auto line = line_of(graph, weights)) return *std::move(line);
  return "region" + marks(graph, weights) + " " + ir::print(graph, {int64_t{1} << 20, false});
}

std::string name(const ir::Graph& graph, const std::vector<bool>& weights) {
  auto line = line_of(graph, weights);
  return line ? *std::move(line) : "region @" + hash(graph, weights);
}

Result<Problem> parse(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  const bool region = text.starts_with("region ");
  Problem p;
  if (region || text.starts_with("graph")) {
    const std::string_view rest = region ? text.substr(7) : text;
    const size_t at = rest.starts_with("graph") ? 0 : rest.find(" graph");
    if (at == std::string_view::npos) return invalid("a region without its graph").but_found(std::string(text));
    PERI_ASSIGN(p, parse_region(rest.substr(0, at), rest.substr(at)));
    PERI_TRY(infer(&p.graph));
    if (!region) p.weights = weights_by_role(p.graph);
    return p;
  }
  return parse_line(text);
}

}  // namespace peri::problem
