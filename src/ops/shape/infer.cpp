// Look-up of ops, the checks of every node, and shape inference over a whole graph.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/fault.hpp"
#include "ops/entry.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/composed.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {

namespace {
struct Tables {
  std::map<std::string_view, const OpDef*> by_name;
  std::map<std::pair<std::string_view, std::string_view>, const OpDef*> by_onnx;
};
const Tables& tables() {
  static const Tables kTables = [] {
    Tables t;
    for (const Entry* e : entries()) {
      for (const OpDef& op : e->ops) {
        PERI_CHECK(t.by_name.emplace(op.name, &op).second, "two ops named " + std::string(op.name));
        if (!op.onnx.empty())
          PERI_CHECK(t.by_onnx.emplace(std::pair{op.domain, op.onnx}, &op).second,
                     "two ops for " + std::string(op.onnx));
      }
    }
    return t;
  }();
  return kTables;
}

std::string label(const ir::Node& n) {
  return n.name.empty() ? (n.outputs.empty() ? n.op : n.outputs[0]->name) : n.name;
}

bool kind_matches(AttrKind kind, const ir::Attr& a) {
  switch (kind) {
    case AttrKind::kInt:
    case AttrKind::kType: return std::holds_alternative<int64_t>(a);
    case AttrKind::kFloat: return std::holds_alternative<double>(a);
    case AttrKind::kString: return std::holds_alternative<std::string>(a);
    case AttrKind::kInts: return std::holds_alternative<std::vector<int64_t>>(a);
    case AttrKind::kFloats: return std::holds_alternative<std::vector<double>>(a);
    case AttrKind::kStrings: return std::holds_alternative<std::vector<std::string>>(a);
    case AttrKind::kDims: return std::holds_alternative<std::vector<Dim>>(a);
    case AttrKind::kTensor: return std::holds_alternative<Tensor>(a);
    case AttrKind::kGraph: return std::holds_alternative<std::shared_ptr<ir::Graph>>(a);
  }
  return false;
}

void collect_symbols(std::span<const Dim> dims, std::set<std::string>* out) {
  for (const Dim& d : dims)
    if (!d.is_const()) d.collect_symbols(*out);
}

// The number at the end of a name like "data.nonzero_0"; none if there is none, or it is longer than any we make.
std::optional<int64_t> fresh_number(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits == name.size() || name[digits - 1] != '_' || name.size() - digits > 15) return std::nullopt;
  int64_t out = 0;
  const auto [end, code] = std::from_chars(name.data() + digits, name.data() + name.size(), out);
  return code == std::errc() && end == name.data() + name.size() ? std::optional(out) : std::nullopt;
}

// Names in the shapes of a node's outputs that no input has: what an earlier inference of the node made.
std::vector<std::string> made_before(const ir::Node& node) {
  std::set<std::string> made, given;
  for (const ir::Value* v : node.outputs)
    if (v->type.shape) collect_symbols(*v->type.shape, &made);
  if (made.empty()) return {};
  for (const ir::Value* v : node.inputs) {
    if (v && v->type.shape) collect_symbols(*v->type.shape, &given);
    if (v && v->content) collect_symbols(*v->content, &given);
  }
  std::vector<std::string> out;
  for (const ir::Value* v : node.outputs)
    for (const Dim& d : v->type.shape ? *v->type.shape : Shape())
      if (d.is_symbol() && !given.contains(d.symbol_name()) &&
          std::find(out.begin(), out.end(), d.symbol_name()) == out.end())
        out.push_back(d.symbol_name());
  return out;
}

Status check_ports(const OpDef& op, const ir::Node& node) {
  const std::string who = label(node);
  const bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  if (node.inputs.size() > op.inputs.size() && !variadic)
    return invalid("%s has too many inputs", node.op.c_str())
        .at_node(who)
        .expecting(format("at most %zu", op.inputs.size()))
        .but_found(std::to_string(node.inputs.size()));
  for (size_t i = 0; i < std::max(node.inputs.size(), op.inputs.size()); ++i) {
    const Port& port = op.inputs[std::min(i, op.inputs.size() - 1)];
    const ir::Value* v = node.in(i);
    if (!v) {
      if (port.variadic && i < node.inputs.size())
        return invalid("argument %zu of %s is left out", i, node.op.c_str())
            .at_node(who)
            .expecting("a value: only the optional inputs of an operator may be left out")
            .advise("remove the empty name from the node's inputs");
      if (!port.optional)
        return invalid("%s needs its input '%.*s'", node.op.c_str(), static_cast<int>(port.name.size()),
                       port.name.data())
            .at_node(who);
      continue;
    }
    const DType t = v->type.dtype;
    if (t == DType::kInvalid) continue;
    if (!contains(port.types, t))
      return unsupported("%s does not take %s as '%.*s'", node.op.c_str(), dtype_name(t).data(),
                         static_cast<int>(port.name.size()), port.name.data())
          .at_node(who);
    if (port.same_type_as >= 0 && node.in(static_cast<size_t>(port.same_type_as)) &&
        node.in(static_cast<size_t>(port.same_type_as))->type.dtype != t)
      return invalid("inputs of %s differ in type", node.op.c_str())
          .at_node(who)
          .expecting(std::string(dtype_name(node.in(static_cast<size_t>(port.same_type_as))->type.dtype)))
          .but_found(std::string(dtype_name(t)));
  }
  if (node.outputs.size() > op.outputs.size() && !(!op.outputs.empty() && op.outputs.back().variadic))
    return invalid("%s has too many outputs", node.op.c_str()).at_node(who);
  return Ok{};
}
}  // namespace

const OpDef* find(std::string_view ir_name) {
  auto it = tables().by_name.find(ir_name);
  return it == tables().by_name.end() ? nullptr : it->second;
}
const OpDef* find_onnx(std::string_view domain, std::string_view op_type) {
  auto it = tables().by_onnx.find({domain == "ai.onnx" ? "" : domain, op_type});
  return it == tables().by_onnx.end() ? nullptr : it->second;
}
std::vector<const OpDef*> all() {
  std::vector<const OpDef*> out;
  for (const auto& [name, op] : tables().by_name) out.push_back(op);
  return out;
}

Role role_of(const ir::Node& node, size_t port) {
  const OpDef* op = find(node.op);
  if (!op || op->inputs.empty() || (port >= op->inputs.size() && !op->inputs.back().variadic)) return Role::kData;
  return op->inputs[std::min(port, op->inputs.size() - 1)].role;
}
bool says_sizes(const ir::Value& value) {
  return std::any_of(value.users.begin(), value.users.end(), [&](const ir::Node* n) {
    const OpDef* op = find(n->op);
    for (size_t port = 0; op && port < std::min(n->inputs.size(), op->inputs.size()); ++port)
      if (n->inputs[port] == &value && op->inputs[port].sizes) return true;
    return false;
  });
}
bool is_factor(const ir::Node& node, size_t port) {
  return role_of(node, port) == Role::kWeight || (port == 0 && role_of(node, 1) == Role::kWeight);
}
bool is(const ir::Node& node, bool OpDef::* fact) {
  const OpDef* op = find(node.op);
  return op && op->*fact;
}
Control control_of(const ir::Node& node) {
  const OpDef* op = find(node.op);
  return op ? op->control : Control::kNone;
}
std::vector<Dim> index_ends_of(const ir::Node& node, size_t port) {
  if (role_of(node, port) != Role::kIndex) return {};
  return find(node.op)->index_ends(node);
}

Status check_node(const ir::Node& node) {
  const OpDef* op = find(node.op);
  if (!op) return unsupported("unknown op '%s'", node.op.c_str()).at_node(label(node));
  PERI_TRY(check_ports(*op, node));
  for (const auto& [key, attr] : node.attrs) {
    auto it = std::find_if(op->attrs.begin(), op->attrs.end(), [&](const AttrSpec& s) { return s.name == key; });
    if (it == op->attrs.end())
      return invalid("%s has no attribute '%s'", node.op.c_str(), key.c_str()).at_node(label(node));
    if (!kind_matches(it->kind, attr))
      return invalid("attribute '%s' of %s has the wrong kind", key.c_str(), node.op.c_str()).at_node(label(node));
  }
  for (const AttrSpec& s : op->attrs)
    if (s.required && !node.has(s.name))
      return invalid("%s needs its attribute '%s'", node.op.c_str(), std::string(s.name).c_str()).at_node(label(node));
  return Ok{};
}

const std::vector<Dim>* InferContext::elements(size_t i) const {
  const ir::Value* v = node.in(i);
  if (!v) return nullptr;
  if (!v->content && v->constant && contains(kInts | kBools, v->constant->dtype()) &&
      v->constant->numel() <= most_followed(node)) {
    std::vector<Dim> elements;
    for (int64_t k = 0; k < v->constant->numel(); ++k) elements.emplace_back(v->constant->i64(k));
    const_cast<ir::Value*>(v)->content = std::move(elements);  // a cache of what the constant says
  }
  return v->content ? &*v->content : nullptr;
}
const std::vector<Dim>* InferContext::known(size_t i) const {
  return has(i) && in(i).shape && rank(i) <= 1 ? elements(i) : nullptr;
}

Result<std::vector<int64_t>> InferContext::constants(size_t i, std::string_view what) const {
  const std::vector<Dim>* elements = known(i);
  std::vector<int64_t> out;
  if (elements) {
    for (const Dim& d : *elements) {
      if (!d.is_const()) break;
      out.push_back(d.value());
    }
  }
  if (!elements || out.size() != elements->size())
    return unsupported("%.*s must be a constant", static_cast<int>(what.size()), what.data())
        .advise("export the model with this input fixed");
  return out;
}

void InferContext::set(size_t i, DType t, Shape s) {
  if (i < out.size()) out[i] = ir::Type(t, std::move(s));
}
void InferContext::set_content(size_t i, std::vector<Dim> elements) {
  if (i < content.size()) content[i] = std::move(elements);
}
Dim InferContext::fresh(std::string_view stem) {
  const std::string start = std::string(kDataDim) + std::string(stem) + "_";
  for (auto it = made_before.begin(); it != made_before.end(); ++it) {
    if (!it->starts_with(start) || !fresh_number(*it)) continue;
    const Dim kept = Dim::symbol(*it);
    made_before.erase(it);
    return kept;
  }
  return Dim::symbol(start + std::to_string((*fresh_symbol)++));
}

int64_t first_fresh(const ir::Graph& graph) {
  std::set<std::string> symbols;
  for (const auto& v : graph.values()) {
    if (v->type.shape) collect_symbols(*v->type.shape, &symbols);
    if (v->content) collect_symbols(*v->content, &symbols);
  }
  for (const ir::Node* n : graph.nodes)
    for (const auto& [key, attr] : n->attrs)
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr)) collect_symbols(*dims, &symbols);
  int64_t first = 0;
  for (const std::string& s : symbols)
    if (const std::optional<int64_t> number = fresh_number(s)) first = std::max(first, *number + 1);
  return first;
}

Status check_known(const ir::Node& node) {
  for (const ir::Value* v : node.inputs) {
    if (!v || v->type.known()) continue;
    return unsupported("the %s of input '%s' is not known", v->type.shape ? "type" : "rank", v->name.c_str())
        .at_node(label(node))
        .advise("give the graph's inputs a type and a rank, or the shape of each that has none: --shapes NAME:AxB");
  }
  return Ok{};
}

Status infer_node(ir::Node& node, int64_t* fresh_symbol) {
  PERI_TRY(check_node(node));
  const OpDef* op = find(node.op);
  InferContext context{node, {}, {}, fresh_symbol, made_before(node)};
  context.out.resize(node.outputs.size());
  context.content.resize(node.outputs.size());
  PERI_TRY(check_known(node));
  Status done = named([&] { return label(node); }, [&] { return op->infer(context); });
  if (!done.ok()) return std::move(done).error().at_node(label(node));
  for (auto& [key, body] : context.bodies) node.attrs[key] = std::move(body);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ir::Type& t = context.out[k];
    ir::Value* v = node.outputs[k];
    if (!t.known()) return internal_error("%s did not infer its output %zu", node.op.c_str(), k).at_node(label(node));
    if (t.shape->size() > 32)
      return invalid("a tensor of rank %zu", t.shape->size()).at_node(label(node)).expecting("rank 32 at most");
    for (const Dim& d : *t.shape) {
      if (d.is_poison())
        return invalid("a size of output %zu passes 64 bits, or is too long an expression of the named sizes", k)
            .at_node(label(node))
            .advise("export the model with fixed sizes there, or with fewer that are open");
      if (d.is_const() && d.value() < 0)
        return invalid("'%s' gets a negative dimension", v->name.c_str())
            .at_node(label(node))
            .but_found(shape_text(*t.shape));
    }
    if (is_const(*t.shape)) {
      PERI_ASSIGN(const std::vector<int64_t> dims, eval(*t.shape, {}));
      if (auto n = checked_numel(dims); !n.ok()) {
        Error e = std::move(n).error();
        e.remedy = "no machine holds it: the model needs smaller sizes";
        return std::move(e).at_node(label(node));
      }
    }
    ir::Layout layout = v->type.layout;
    v->type = t;
    v->type.layout = std::move(layout);
    v->content = context.content[k];
  }
  return Ok{};
}

Status infer_graph(ir::Graph& graph) {
  int64_t fresh = first_fresh(graph);
  PERI_TRY(graph.sort());
  for (ir::Node* n : graph.nodes) PERI_TRY(infer_node(*n, &fresh));
  return Ok{};
}

Cost cost_of(const ir::Node& node) {
  const OpDef* op = find(node.op);
  if (op && op->cost) return op->cost(node);
  Cost c;
  auto bytes = [](const ir::Value& v) {
    double n = dtype_bits(v.type.dtype) / 8.0;
    for (const Dim& d : *v.type.shape) n *= static_cast<double>(d.is_const() ? d.value() : 1);
    return n;
  };
  for (const ir::Value* v : node.inputs)
    if (v) c.bytes_read += bytes(*v);
  for (const ir::Value* v : node.outputs) {
    c.bytes_written += bytes(*v);
    if (dtype_bits(v->type.dtype)) c.flops += bytes(*v) * 8 / dtype_bits(v->type.dtype);
  }
  return c;
}

}  // namespace peri::ops
