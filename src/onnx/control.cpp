// If and Loop: bodies become graphs of their own, captured values become their inputs and arguments of the node. Bodies
// hold constants themselves.
#include <algorithm>

#include "ir/bodies.hpp"
#include "onnx/builder.hpp"
#include "onnx/proto_reader.hpp"
#include "onnx/refusals.hpp"
#include "onnx/scope_check.hpp"

namespace peri::onnx {

bool is_control(const NodeRecord& node) {
  return (node.domain.empty() || node.domain == "ai.onnx") &&
         (node.op == "If" || node.op == "Loop" || node.op == "Scan" || node.op == "SequenceMap");
}

Status Builder::add_control(const NodeRecord& node, const std::string& label, int64_t opset, Scope& scope) {
  Status done = node.op == "If"     ? add_if(node, label, scope)
                : node.op == "Loop" ? add_loop(node, label, scope)
                : node.op == "Scan" ? add_scan(node, label, opset, scope)
                                    : add_map(node, label, scope);
  if (!done.ok()) return std::move(done).error().at_node(label);
  return Ok{};
}

Result<GraphRecord> Builder::body_record(const NodeRecord& node, std::string_view key) const {
  const AttrRecord* a = node.attr(key);
  if (!a || a->type != AttrType::kGraph)
    return invalid("%s needs its graph '%s'", std::string(node.op).c_str(), std::string(key).c_str());
  return read_graph(a->message, weights_.base());
}

ir::Node* Builder::add_raw(ir::Graph& graph, std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs,
                           const std::string& label, int outputs) {
  attrs[std::string(kOpsetAttr)] = static_cast<int64_t>(kNewestOpset);
  ir::Node* n = graph.add(op, std::move(inputs), std::move(attrs), "", outputs);
  n->name = label;
  n->origins = {label};
  return n;
}

Status Builder::fill_body(const GraphRecord& g, const std::vector<ir::Value*>& formals, Scope& body) {
  if (g.inputs.size() != formals.size())
    return invalid("a body takes %zu inputs", g.inputs.size()).expecting(std::to_string(formals.size()));
  PERI_TRY(add_initializers(g, body));
  const OuterNames everything{nullptr, nullptr, true};
  ScopeCheck check{weights_.base(), g.nodes, {}, {}, &everything, 0, [](const NodeRecord&, int) { return Ok{}; }};
  for (const auto& [name, value] : body.values) check.given.push_back(name);
  for (size_t k = 0; k < formals.size(); ++k) {
    PERI_ASSIGN(const ValueRecord v, read_value(g.inputs[k], weights_.base()));
    body.values[std::string(v.name)] = formals[k];
    check.given.push_back(v.name);
  }
  PERI_ASSIGN(const std::vector<uint32_t> order, check_scope(check));
  PERI_TRY(add_nodes(g.nodes, order, body));
  // A body's results are known by their places: one value may stand at several, under one name.
  std::unordered_set<std::string> taken(body.graph->output_names.begin(), body.graph->output_names.end());
  for (const std::string_view message : g.outputs) {
    PERI_ASSIGN(const ValueRecord v, read_value(message, weights_.base()));
    ir::Value* value = nullptr;
    if (!find(v.name, body, &value) || !value)
      return invalid("output '%s' of a body is not defined", std::string(v.name).c_str());
    body.graph->mark_output(value, ir::unique_name(std::string(v.name), &taken));
  }
  return Ok{};
}

Status Builder::add_if(const NodeRecord& node, const std::string& label, Scope& scope) {
  std::vector<ir::Value*> inputs;
  PERI_TRY(lookup(node, scope, &inputs));
  if (inputs.size() != 1) return invalid("an If takes its condition alone");
  ir::Attrs attrs;
  std::vector<std::vector<std::pair<ir::Value*, ir::Value*>>> captures;
  size_t outputs = 0;
  for (const char* key : {"then_branch", "else_branch"}) {
    PERI_ASSIGN(const GraphRecord record, body_record(node, key));
    auto graph = std::make_shared<ir::Graph>(std::string(key));
    Scope body{scope.opsets, "", label + "/", {}, scope.attrs, graph.get(), &scope};
    PERI_TRY(fill_body(record, {}, body));
    outputs = graph->outputs.size();
    captures.push_back(std::move(body.captures));
    attrs[key] = std::move(graph);
  }
  for (const auto& list : captures)
    for (const auto& [outside, inside] : list)
      if (std::find(inputs.begin() + 1, inputs.end(), outside) == inputs.end()) inputs.push_back(outside);
  const char* keys[] = {"then_branch", "else_branch"};
  for (size_t b = 0; b < 2; ++b) {
    ir::Graph& g = *std::get<std::shared_ptr<ir::Graph>>(attrs[keys[b]]);
    std::vector<ir::Value*> ordered;
    for (size_t k = 1; k < inputs.size(); ++k) {
      const auto it =
          std::find_if(captures[b].begin(), captures[b].end(), [&](auto& c) { return c.first == inputs[k]; });
      ordered.push_back(it != captures[b].end() ? it->second : g.add_input(inputs[k]->name, {}));
    }
    g.inputs = std::move(ordered);
  }
  ir::Node* n = add_raw(*scope.graph, "if", std::move(inputs), std::move(attrs), label, 0);
  add_results(node, n, scope);
  while (n->outputs.size() < outputs) scope.graph->add_output_value(n, "");
  return Ok{};
}

Status Builder::add_loop(const NodeRecord& node, const std::string& label, Scope& scope) {
  std::vector<ir::Value*> inputs;
  PERI_TRY(lookup(node, scope, &inputs));
  inputs.resize(std::max<size_t>(inputs.size(), 2));
  const size_t carried = inputs.size() - 2;
  PERI_ASSIGN(const GraphRecord record, body_record(node, "body"));
  if (record.inputs.size() != carried + 2 || record.outputs.size() < carried + 1)
    return invalid("the body of a Loop has %zu inputs and %zu outputs", record.inputs.size(), record.outputs.size())
        .expecting(format("%zu and at least %zu", carried + 2, carried + 1));
  auto graph = std::make_shared<ir::Graph>("body");
  Scope body{scope.opsets, "", label + "/", {}, scope.attrs, graph.get(), &scope};
  std::vector<ir::Value*> formals;
  for (const std::string_view message : record.inputs) {
    PERI_ASSIGN(const ValueRecord v, read_value(message, weights_.base()));
    formals.push_back(graph->add_input(v.name, {}));
  }
  PERI_TRY(fill_body(record, formals, body));
  for (const auto& [outside, inside] : body.captures) inputs.push_back(outside);
  const size_t outputs = record.outputs.size() - 1;
  ir::Attrs attrs{{"body", std::move(graph)}, {"carried", static_cast<int64_t>(carried)}};
  ir::Node* n = add_raw(*scope.graph, "loop", std::move(inputs), std::move(attrs), label, 0);
  add_results(node, n, scope);
  if (n->outputs.size() > outputs)
    return invalid("a Loop has %zu results", n->outputs.size()).expecting(format("at most %zu", outputs));
  while (n->outputs.size() < outputs) scope.graph->add_output_value(n, "");
  return Ok{};
}

Status Builder::add_map(const NodeRecord& node, const std::string& label, Scope& scope) {
  std::vector<ir::Value*> inputs;
  PERI_TRY(lookup(node, scope, &inputs));
  PERI_ASSIGN(const GraphRecord record, body_record(node, "body"));
  if (inputs.empty() || record.inputs.size() != inputs.size())
    return invalid("the body of a SequenceMap has %zu inputs", record.inputs.size())
        .expecting(std::to_string(inputs.size()));
  auto graph = std::make_shared<ir::Graph>("body");
  Scope body{scope.opsets, "", label + "/", {}, scope.attrs, graph.get(), &scope};
  std::vector<ir::Value*> formals;
  for (const std::string_view message : record.inputs) {
    PERI_ASSIGN(const ValueRecord v, read_value(message, weights_.base()));
    formals.push_back(graph->add_input(v.name, {}));
  }
  PERI_TRY(fill_body(record, formals, body));
  const size_t outputs = record.outputs.size();
  ir::Attrs attrs{{"body", std::move(graph)}, {"formals", static_cast<int64_t>(inputs.size())}};
  for (const auto& [outside, inside] : body.captures) inputs.push_back(outside);
  ir::Node* n = add_raw(*scope.graph, "sequence_map", std::move(inputs), std::move(attrs), label, 0);
  add_results(node, n, scope);
  if (n->outputs.size() > outputs)
    return invalid("a SequenceMap has %zu results", n->outputs.size()).expecting(format("at most %zu", outputs));
  while (n->outputs.size() < outputs) scope.graph->add_output_value(n, "");
  return Ok{};
}

}  // namespace peri::onnx
