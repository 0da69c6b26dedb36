// Upgrade and inference node by node, then the check of declared outputs.
#include "onnx/complete_graph.hpp"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/byte_text.hpp"
#include "ir/bodies.hpp"
#include "onnx/containers.hpp"
#include "onnx/first_forms.hpp"
#include "ops/control/bodies.hpp"
#include "ops/shape/composed.hpp"
#include "plan/program.hpp"

namespace peri::onnx {

namespace {
// Infers nodes that stand in any order, each as soon as its inputs are made.
Status infer_in_order(std::vector<ir::Node*> pending, int64_t* fresh) {
  std::unordered_set<const ir::Node*> open(pending.begin(), pending.end());
  while (!open.empty()) {
    const size_t before = open.size();
    for (ir::Node* n : pending) {
      if (!open.contains(n)) continue;
      const bool ready = std::none_of(n->inputs.begin(), n->inputs.end(), [&](const ir::Value* v) {
        return v && v->producer && open.contains(v->producer);
      });
      if (!ready) continue;
      PERI_TRY(ops::infer_node(*n, fresh));
      open.erase(n);
    }
    if (open.size() == before) return internal_error("an upgrade made a cycle").at_node(pending[0]->name);
  }
  return Ok{};
}

Status upgrade(ir::Graph& graph, ir::Node* node, int64_t opset) {
  const ops::OpDef* def = ops::find(node->op);
  PERI_CHECK(def != nullptr);
  const std::string label = node->name;
  PERI_TRY(open_first_form(graph, *node, opset));
  if (!def->upgrade) return Ok{};
  if (def->infer == ops::infer_composed) {  // else inference checks this
    PERI_TRY(ops::check_known(*node));
    PERI_TRY(ops::check_node(*node));
  }
  Status done = def->upgrade(graph, *node, static_cast<int>(opset));
  if (!done.ok()) return std::move(done).error().at_node(label);
  return Ok{};
}

// Even with every named dimension at 1, a value must be of a size that a machine can have: no later size computation
// can then wrap.
Status check_size(const ir::Value& v) {
  double bytes = std::max(1, dtype_bits(v.type.dtype)) / 8.0;
  for (const Dim& d : v.type.shape.value_or(Shape{})) {
    if (d.is_const(0)) return Ok{};
    if (d.is_const()) bytes *= static_cast<double>(d.value());
  }
  if (bytes <= static_cast<double>(plan::kMaxBufferBytes)) return Ok{};
  return Error(ErrorKind::kMemory, format("'%s' is too large for any memory", v.name.c_str()))
      .at_node(v.producer ? v.producer->name : v.name)
      .expecting("at most " + bytes_text(static_cast<double>(plan::kMaxBufferBytes)))
      .but_found(ir::type_text(v.type))
      .advise(is_const(*v.type.shape) ? "make it smaller in the model, whose sizes are fixed"
                                      : "make it smaller in the model: its fixed dimensions alone are too large");
}

Status check_output(const ir::Value& v, const PortInfo& declared, std::vector<std::string>* notes) {
  const ir::Type& want = declared.type;
  if (want.dtype != DType::kInvalid && want.dtype != v.type.dtype)
    return invalid("the declared element type of output '%s' contradicts what the graph computes",
                   declared.name.c_str())
        .at_node(v.producer ? v.producer->name : v.name)
        .expecting(ir::type_text(want))
        .but_found(ir::type_text(v.type))
        .advise("run onnx.shape_inference, or export again");
  if (!want.shape || !v.type.shape) return Ok{};
  if (want.shape->empty() && !v.type.shape->empty()) {  // of exporters that know none
    notes->push_back("output '" + declared.name + "' is declared with an empty shape; it has " + ir::type_text(v.type));
    return Ok{};
  }
  bool differs = want.shape->size() != v.type.shape->size();
  for (size_t a = 0; !differs && a < want.shape->size(); ++a) {
    const Dim &x = (*want.shape)[a], &y = (*v.type.shape)[a];
    differs = x.is_const() && y.is_const() && x.value() != y.value();
  }
  if (differs)  // of exporters that wrote down another run: what the nodes give counts
    notes->push_back("output '" + declared.name + "' is declared as " + ir::type_text(want) + "; it has " +
                     ir::type_text(v.type));
  return Ok{};
}
// Nodes of a graph or a body, from where they stand as written.
class Completion {
 public:
  // Those of the model itself too, whose results may be sequences: each element becomes one.
  Status whole(ir::Graph& g, std::vector<PortInfo>* declared);
  // What users should know, once the model is complete.
  void note(std::vector<std::string>* notes) const {
    for (const std::string& name : in_branches_)
      notes->push_back("'" + name + "' is a dropout in training mode: a run that takes its branch is refused");
  }

 private:
  Status opened(ir::Graph& g);
  Status finished(ir::Graph& g) const;
  Status nodes(ir::Graph& g);
  Status node(ir::Graph& g, size_t* at, int64_t opset, int64_t* fresh);
  // A branch whose condition is known stands in the place of the if, its nodes as written.
  static bool take_branch(ir::Graph& g, size_t at);

  int64_t work_ = 0;
  std::set<std::string> in_branches_;  // dropouts that train
};

// A dropout that trains is refused where it runs; within a branch, which may never be taken, that is left to the run.
// The names of those nodes.
void leave_to_run(ir::Graph& g, std::set<std::string>* names) {
  for (ir::Node* n : g.nodes) {
    for (const auto& [key, body] : ir::bodies_of(*n)) leave_to_run(*body, names);
    const ir::Value* training = n->op == "dropout" ? n->in(2) : nullptr;
    if (!training || !training->constant || training->constant->numel() != 1 || training->constant->i64(0) == 0)
      continue;
    n->attrs["in_branch"] = int64_t{1};
    names->insert(n->name);
  }
}

// Bodies are completed as often as the types of carried values need, in each round of those around them.
constexpr int64_t kMaxWork = 4000000;

bool Completion::take_branch(ir::Graph& g, size_t at) {
  ir::Node* n = g.nodes[at];
  const std::optional<Tensor> known = n->op == "if" && n->in(0) ? ops::computed_constant(*n->in(0)) : std::nullopt;
  if (!known || known->dtype() != DType::kBool || known->numel() != 1) return false;
  const auto body = std::get<std::shared_ptr<ir::Graph>>(n->attrs.at(known->i64(0) ? "then_branch" : "else_branch"));
  if (body->outputs.size() != n->outputs.size()) return false;
  const std::vector<ir::Value*> arguments(n->inputs.begin() + 1, n->inputs.end());
  size_t made = 0;
  const std::vector<ir::Value*> results = ir::inline_body(g, *body, arguments, at, &made);
  for (size_t k = 0; k < results.size(); ++k) g.replace_uses(n->outputs[k], results[k]);
  g.erase(n);
  return true;
}

Status Completion::node(ir::Graph& g, size_t* at, int64_t opset, int64_t* fresh) {
  ir::Node* node = g.nodes[*at];
  if (take_branch(g, *at)) return Ok{};
  const std::string label = node->name;
  Result<bool> opened = open_container(g, at, fresh);
  if (!opened.ok()) return std::move(opened).error().at_node(label);
  if (*opened) return Ok{};
  node->attrs.erase(std::string(kOpsetAttr));
  const size_t size = g.nodes.size();
  const std::vector<std::string> origins = node->origins;
  if (ir::has_bodies(*node)) {
    PERI_TRY(ops::check_node(*node));
    if (node->op == "if")
      for (const auto& [key, body] : ir::bodies_of(*node)) leave_to_run(*body, &in_branches_);
    Status done = ops::complete_bodies(*node, fresh, [this](ir::Graph& body) { return nodes(body); });
    if (!done.ok()) return std::move(done).error().at_node(node->name);
  }
  PERI_TRY(upgrade(g, node, opset));
  const bool stays = *at < g.nodes.size() && g.nodes[*at] == node;
  std::vector<ir::Node*> pending(g.nodes.begin() + static_cast<std::ptrdiff_t>(size - (stays ? 0 : 1)), g.nodes.end());
  for (ir::Node* added : pending) {
    if (added->origins.empty()) added->origins = origins;
    if (added->name.empty()) added->name = origins.empty() ? "" : origins[0];
  }
  if (stays) {
    pending.insert(pending.begin(), node);
    ++*at;
  }
  return pending.size() == 1 ? ops::infer_node(*pending[0], fresh) : infer_in_order(std::move(pending), fresh);
}

Status Completion::nodes(ir::Graph& g) {
  PERI_TRY(opened(g));
  return finished(g);
}

Status Completion::whole(ir::Graph& g, std::vector<PortInfo>* declared) {
  PERI_TRY(opened(g));
  open_results(g, declared);
  return finished(g);
}

Status Completion::opened(ir::Graph& g) {
  int64_t fresh = ops::first_fresh(g);
  for (size_t at = 0; at < g.nodes.size();) {
    const auto opset = g.nodes[at]->attrs.find(kOpsetAttr);
    if (opset == g.nodes[at]->attrs.end()) {
      ++at;
      continue;
    }
    if (++work_ > kMaxWork)
      return Error(ErrorKind::kMemory, "bodies nested in bodies take too long to read").at_node(g.nodes[at]->name);
    PERI_TRY(node(g, &at, std::get<int64_t>(opset->second), &fresh));
  }
  return Ok{};
}

Status Completion::finished(ir::Graph& g) const {
  PERI_TRY(drop_containers(g));
  PERI_TRY(g.sort());
  for (const auto& v : g.values())
    if (v->type.known()) PERI_TRY(check_size(*v));
  return Ok{};
}
}  // namespace

Status complete_graph(BuiltGraph& built, std::vector<PortInfo>* declared_outputs, std::vector<std::string>* notes) {
  ir::Graph& g = built.graph;
  Completion completion;
  PERI_TRY(completion.whole(g, declared_outputs));
  completion.note(notes);
  if (g.outputs.empty()) return unsupported("the model gives nothing: its results are empty sequences or optionals");
  for (size_t k = 0; k < declared_outputs->size(); ++k)
    PERI_TRY(check_output(*g.outputs[k], (*declared_outputs)[k], notes));
  return Ok{};
}

}  // namespace peri::onnx
