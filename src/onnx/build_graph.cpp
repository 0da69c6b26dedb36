// Builds the graph scope by scope: the model's own, and one for every call of a function.
#include "onnx/builder.hpp"

#include <algorithm>

#include "onnx/attributes.hpp"
#include "onnx/proto_reader.hpp"
#include "onnx/refusals.hpp"

namespace peri::onnx {

Result<BuiltGraph> Builder::run() {
  const GraphRecord& g = *survey_.model.graph;
  out_.graph.name = g.name;
  Scope scope{survey_.model.opsets, "", "", {}, {}, &out_.graph};
  add_inputs(scope);
  PERI_TRY(add_initializers(g, scope));
  PERI_TRY(check_default_inputs(g, scope));
  PERI_TRY(add_nodes(g.nodes, survey_.order, scope));
  for (const PortInfo& port : survey_.report.outputs) {
    const auto it = scope.values.find(port.name);
    if (it == scope.values.end()) return invalid("output '%s' is not defined", port.name.c_str());
    out_.graph.mark_output(it->second, port.name);
  }
  return std::move(out_);
}

void Builder::add_inputs(Scope& scope) {
  for (const auto& [name, value] : survey_.fixed) scope.values[name] = out_.graph.add_constant(name, value);
  for (const PortInfo& port : survey_.report.inputs)
    scope.values[port.name] = out_.graph.add_input(port.name, port.type);
  for (const auto& [name, container] : survey_.containers) {
    std::vector<ir::Value*> elements;
    for (const std::string& element : container.elements) elements.push_back(scope.values.at(element));
    if (container.sequence || elements.empty())
      scope.values[name] = out_.graph.add(container.sequence ? "sequence_construct" : "optional", elements)->out();
  }
}

// One of a name that is given again takes the place of the first.
void Builder::add_initializer(std::string_view name, Tensor tensor, Scope& scope) {
  ir::Value*& value = scope.values[std::string(name)];
  if (!value || !value->constant) {
    value = scope.graph->add_constant(name, std::move(tensor));
    return;
  }
  value->type = ir::Type(tensor.dtype(), Shape(tensor.dims().begin(), tensor.dims().end()));
  value->constant = std::move(tensor);
}

// Whether it is the default value of an input that is fixed to another.
bool Builder::is_fixed(std::string_view initializer, const Scope& scope) const {
  return scope.graph == &out_.graph && !scope.parent && survey_.fixed.contains(std::string(initializer));
}

Status Builder::add_initializers(const GraphRecord& g, Scope& scope) {
  for (const Body& body : g.initializers) {
    PERI_ASSIGN(const TensorRecord t, read_tensor(body, weights_.base()));
    if (is_fixed(t.name, scope)) continue;
    PERI_ASSIGN(Tensor tensor, weights_.tensor(t));
    add_initializer(t.name, std::move(tensor), scope);
  }
  for (const Body& body : g.sparse_initializers) {
    PERI_ASSIGN(const SparseTensorRecord t, read_sparse_tensor(body, weights_.base()));
    if (is_fixed(t.values.name, scope)) continue;
    PERI_ASSIGN(Tensor tensor, weights_.dense(t));
    add_initializer(t.values.name, std::move(tensor), scope);
  }
  return Ok{};
}

// An initializer that is also a graph input has the type that the input declares.
Status Builder::check_default_inputs(const GraphRecord& g, const Scope& scope) const {
  for (const Body& body : g.inputs) {
    PERI_ASSIGN(const ValueRecord v, read_value(body, weights_.base()));
    const auto it = scope.values.find(std::string(v.name));
    if (it == scope.values.end() || !it->second->constant || v.kind == ValueKind::kNone) continue;
    PERI_ASSIGN(const ir::Type declared, declared_type(v, {}));
    const ir::Type& have = it->second->type;
    bool same = declared.dtype == have.dtype && (!declared.shape || declared.shape->size() == have.shape->size());
    for (size_t a = 0; same && declared.shape && a < declared.shape->size(); ++a)
      same = !(*declared.shape)[a].is_const() || (*declared.shape)[a] == (*have.shape)[a];
    if (!same)
      return invalid("an initializer contradicts the shape or type of the input of its name")
          .at_node(v.name)
          .expecting(ir::type_text(declared))
          .but_found(ir::type_text(have));
  }
  return Ok{};
}

Status Builder::add_nodes(const std::vector<Body>& nodes, const std::vector<uint32_t>& order, Scope& scope) {
  for (const uint32_t index : order) {
    PERI_ASSIGN(NodeRecord node, read_node(nodes[index], weights_.base()));
    PERI_TRY(resolve_references(node, scope));
    PERI_TRY(add_node(node, scope));
  }
  return Ok{};
}

// `ref_name`: the value the call gives, else the function's default, else the attribute is left out.
Status Builder::resolve_references(NodeRecord& node, const Scope& scope) {
  std::vector<AttrRecord> kept;
  for (AttrRecord& a : node.attrs) {
    if (a.ref_name.empty()) {
      kept.push_back(std::move(a));
      continue;
    }
    if (depth_ == 0)
      return invalid("attribute '%s' refers to a function's, outside of a function", std::string(a.name).c_str())
          .at_node(node.label());
    for (const AttrRecord& given : scope.attrs) {
      if (given.name != a.ref_name) continue;
      if (a.type != AttrType::kUndefined && a.type != given.type)
        return invalid("attribute '%s' has the wrong type", std::string(a.name).c_str())
            .at_node(node.label())
            .expecting(std::string(attr_type_name(a.type)))
            .but_found(std::string(attr_type_name(given.type)));
      const std::string_view name = a.name;
      kept.push_back(given);
      kept.back().name = name;
      break;
    }
  }
  node.attrs = std::move(kept);
  return Ok{};
}

bool Builder::find(std::string_view name, Scope& scope, ir::Value** out) {
  const auto it = scope.values.find(std::string(name));
  if (it != scope.values.end()) {
    *out = it->second;
    return true;
  }
  ir::Value* outer = nullptr;
  if (!scope.parent || !find(name, *scope.parent, &outer)) return false;
  ir::Value*& own = scope.values[std::string(name)];
  if (outer && outer->constant) {
    own = scope.graph->add_constant(outer->name, *outer->constant);
  } else if (outer) {
    own = scope.graph->add_input(outer->name, {});
    scope.captures.emplace_back(outer, own);
  }
  *out = own;
  return true;
}

Status Builder::lookup(const NodeRecord& node, Scope& scope, std::vector<ir::Value*>* out) {
  for (std::string_view name : node.inputs) {
    if (name.empty()) {
      out->push_back(nullptr);
      continue;
    }
    ir::Value* v = nullptr;
    if (!find(name, scope, &v))
      return invalid("input '%s' is not defined", std::string(name).c_str()).at_node(node.label());
    out->push_back(v);
  }
  while (!out->empty() && !out->back()) out->pop_back();
  return Ok{};
}

Status Builder::add_node(const NodeRecord& node, Scope& scope) {
  const std::string label = scope.path + std::string(node.label());
  if (const auto it = survey_.functions.find(function_key(node.domain, node.op, node.overload));
      it != survey_.functions.end())
    return inline_call(node, it->second, label, scope);
  if (node.domain.empty() && node.op == "Constant") {
    PERI_ASSIGN(Tensor value, constant_value(node, weights_));
    if (node.outputs.size() != 1) return invalid("a Constant has exactly one output").at_node(label);
    scope.values[std::string(node.outputs[0])] =
        scope.graph->add_constant(scope.prefix + std::string(node.outputs[0]), std::move(value));
    return Ok{};
  }
  return add_op(node, label, scope);
}

Status Builder::add_op(const NodeRecord& node, const std::string& label, Scope& scope) {
  const auto version = scope.opsets.find(node.domain);
  const int64_t opset = version == scope.opsets.end() ? 0 : version->second;
  Refusal why;
  const ops::OpDef* def = find_definition(node.domain, node.op, opset, &why);
  if (!def)
    return unsupported("%s: %s", std::string(node.op).c_str(), why.reason.c_str()).at_node(label).advise(why.remedy);
  if (is_control(node)) return add_control(node, label, opset, scope);
  std::vector<ir::Value*> inputs;
  PERI_TRY(lookup(node, scope, &inputs));
  PERI_ASSIGN(ir::Attrs attrs, import_attrs(node, *def, opset, weights_));
  attrs[std::string(kOpsetAttr)] = opset;
  ir::Node* n = scope.graph->add(def->name, std::move(inputs), std::move(attrs), "", 0);
  n->name = label;
  n->origins = {label};
  add_results(node, n, scope);
  return Ok{};
}

void Builder::add_results(const NodeRecord& node, ir::Node* n, Scope& scope) {
  size_t outputs = node.outputs.size();
  while (node.outputs[outputs - 1].empty()) --outputs;  // the survey saw one that is not
  for (size_t k = 0; k < outputs; ++k) {
    const std::string_view name = node.outputs[k];
    ir::Value* v = scope.graph->add_output_value(n, name.empty() ? std::string() : scope.prefix + std::string(name));
    if (!name.empty()) scope.values[std::string(name)] = v;
  }
}

Status Builder::inline_call(const NodeRecord& node, const Function& function, const std::string& label, Scope& scope) {
  const FunctionRecord& f = function.record;
  if (node.inputs.size() > f.inputs.size() || node.outputs.size() > f.outputs.size())
    return invalid("function %s is called with too many inputs or outputs", std::string(f.name).c_str())
        .at_node(label)
        .expecting(format("at most %zu and %zu", f.inputs.size(), f.outputs.size()))
        .but_found(format("%zu and %zu", node.inputs.size(), node.outputs.size()));
  std::vector<ir::Value*> inputs;
  PERI_TRY(lookup(node, scope, &inputs));
  inputs.resize(f.inputs.size());
  std::string_view first;  // a name no other call in this scope has
  for (std::string_view o : node.outputs)
    if (first.empty()) first = o;
  Scope inner{f.opsets, scope.prefix + std::string(first) + "/", label + "/", {}, node.attrs, scope.graph};
  for (const AttrRecord& a : f.default_attrs)
    if (!node.attr(a.name)) inner.attrs.push_back(a);
  for (const AttrRecord& a : node.attrs) {
    const bool declared = std::find(f.attrs.begin(), f.attrs.end(), a.name) != f.attrs.end() ||
                          std::any_of(f.default_attrs.begin(), f.default_attrs.end(),
                                      [&](const AttrRecord& d) { return d.name == a.name; });
    if (!declared)
      return invalid("function %s has no attribute '%s'", std::string(f.name).c_str(), std::string(a.name).c_str())
          .at_node(label);
  }
  for (size_t k = 0; k < f.inputs.size(); ++k) inner.values[std::string(f.inputs[k])] = inputs[k];
  ++depth_;
  PERI_TRY(add_nodes(f.nodes, function.order, inner));
  --depth_;
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    const auto it = inner.values.find(std::string(f.outputs[k]));
    if (it == inner.values.end() || !it->second)
      return invalid("function %s gives no output '%s' here", std::string(f.name).c_str(),
                     std::string(f.outputs[k]).c_str())
          .at_node(label);
    ir::Value* v = it->second;
    if (v->producer && v->name.starts_with(inner.prefix))
      scope.graph->rename(v, scope.prefix + std::string(node.outputs[k]));
    scope.values[std::string(node.outputs[k])] = v;
  }
  return Ok{};
}
Result<BuiltGraph> build_graph(const Survey& survey, WeightFiles& weights) { return Builder(survey, weights).run(); }

}  // namespace peri::onnx
