// Scan: a loop over the axes of its scan inputs, each iteration gathers its elements. The form of opset 8, which has a
// batch, is such a loop within one over the batch.
#include <algorithm>

#include "onnx/builder.hpp"
#include "onnx/proto_reader.hpp"

namespace peri::onnx {

struct Builder::ScanPlan {
  GraphRecord body;
  size_t states = 0, scans = 0;
  std::vector<int64_t> in_axes, in_reversed, out_axes, out_reversed;
};

namespace {
constexpr int64_t kFirstWithoutBatch = 9;

Result<std::vector<int64_t>> list_of(const NodeRecord& node, std::string_view key, size_t count) {
  const AttrRecord* a = node.attr(key);
  if (!a || a->ints.empty()) return std::vector<int64_t>(count, 0);
  if (a->ints.size() == count) return a->ints;
  return invalid("attribute '%s' of a Scan has %zu entries", std::string(key).c_str(), a->ints.size())
      .expecting(std::to_string(count));
}

Tensor scalar(int64_t v) { return Tensor::of_i64({}, std::span(&v, 1)); }
Tensor always() {
  Tensor t = Tensor::zeros(DType::kBool, {}).value();
  t.set_i64(0, 1);
  return t;
}

// The range of axes that is this one, as attributes of a shape node.
ir::Attrs one_axis(int64_t axis) {
  ir::Attrs attrs{{"start", axis}};
  if (axis != -1) attrs["end"] = axis + 1;
  return attrs;
}
}  // namespace

Result<Builder::ScanPlan> Builder::plan_scan(const NodeRecord& node, int64_t opset, size_t inputs) const {
  ScanPlan p;
  PERI_ASSIGN(p.body, body_record(node, "body"));
  const AttrRecord* scans = node.attr("num_scan_inputs");
  if (!scans || scans->i < 1 || static_cast<uint64_t>(scans->i) > inputs)
    return invalid("a Scan needs 'num_scan_inputs'").expecting(format("1 to %zu", inputs));
  p.scans = static_cast<size_t>(scans->i);
  p.states = inputs - p.scans;
  if (p.body.inputs.size() != inputs || p.body.outputs.size() < p.states)
    return invalid("the body of a Scan has %zu inputs and %zu outputs", p.body.inputs.size(), p.body.outputs.size())
        .expecting(format("%zu and at least %zu", inputs, p.states));
  const size_t outputs = p.body.outputs.size() - p.states;
  const bool batched = opset < kFirstWithoutBatch;
  PERI_ASSIGN(p.in_axes, list_of(node, "scan_input_axes", p.scans));
  PERI_ASSIGN(p.in_reversed, list_of(node, batched ? "directions" : "scan_input_directions", p.scans));
  PERI_ASSIGN(p.out_axes, list_of(node, "scan_output_axes", outputs));
  PERI_ASSIGN(p.out_reversed, list_of(node, "scan_output_directions", outputs));
  return p;
}

Result<ir::Node*> Builder::scan_loop(const ScanPlan& plan, const std::vector<ir::Value*>& arguments,
                                     const std::string& label, Scope& scope) {
  auto graph = std::make_shared<ir::Graph>("body");
  ir::Graph& g = *graph;
  Scope body{scope.opsets, "", label + "/", {}, scope.attrs, &g, &scope};
  ir::Value* iteration = g.add_input("iteration", {});
  g.add_input("condition", {});
  std::vector<ir::Value*> formals;
  for (size_t k = 0; k < plan.states; ++k) formals.push_back(g.add_input(arguments[k]->name, {}));
  for (size_t k = 0; k < plan.scans; ++k) {
    ir::Value* outside = arguments[plan.states + k];
    ir::Value* x =
        outside->constant ? g.add_constant(outside->name, *outside->constant) : g.add_input(outside->name, {});
    if (!outside->constant) body.captures.emplace_back(outside, x);
    ir::Value* at = iteration;
    if (plan.in_reversed[k] != 0) {
      ir::Value* dims = add_raw(g, "shape", {x}, {}, label)->out();
      ir::Value* axis = g.add_constant("", scalar(plan.in_axes[k]));
      ir::Value* length = add_raw(g, "gather", {dims, axis}, {}, label)->out();
      ir::Value* last = add_raw(g, "sub", {length, g.add_constant("", scalar(1))}, {}, label)->out();
      at = add_raw(g, "sub", {last, iteration}, {}, label)->out();
    }
    formals.push_back(add_raw(g, "gather", {x, at}, {{"axis", plan.in_axes[k]}}, label)->out());
  }
  g.mark_output(g.add_constant("", always()), "condition");
  PERI_TRY(fill_body(plan.body, formals, body));
  ir::Value* first = arguments[plan.states];
  std::vector<ir::Value*> inputs = {add_raw(*scope.graph, "shape", {first}, one_axis(plan.in_axes[0]), label)->out(),
                                    nullptr};
  inputs.insert(inputs.end(), arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(plan.states));
  for (const auto& [outside, inside] : body.captures) inputs.push_back(outside);
  const size_t outputs = g.outputs.size() - 1;
  ir::Attrs attrs{{"body", std::move(graph)},
                  {"carried", static_cast<int64_t>(plan.states)},
                  {"axes", plan.out_axes},
                  {"reversed", plan.out_reversed}};
  return add_raw(*scope.graph, "loop", std::move(inputs), std::move(attrs), label, static_cast<int>(outputs));
}

Result<ir::Node*> Builder::batched_scan(const ScanPlan& plan, const std::vector<ir::Value*>& arguments,
                                        const std::string& label, Scope& scope) {
  auto graph = std::make_shared<ir::Graph>("batch");
  ir::Graph& g = *graph;
  Scope batch{scope.opsets, "", label + "/", {}, scope.attrs, &g, &scope};
  ir::Value* iteration = g.add_input("iteration", {});
  g.add_input("condition", {});
  std::vector<ir::Value*> one;
  for (ir::Value* outside : arguments) {
    ir::Value* all =
        outside->constant ? g.add_constant(outside->name, *outside->constant) : g.add_input(outside->name, {});
    if (!outside->constant) batch.captures.emplace_back(outside, all);
    one.push_back(add_raw(g, "gather", {all, iteration}, {}, label)->out());
  }
  PERI_ASSIGN(const ir::Node* inner, scan_loop(plan, one, label, batch));
  g.mark_output(g.add_constant("", always()), "condition");
  for (ir::Value* v : inner->outputs) g.mark_output(v, v->name);
  std::vector<ir::Value*> inputs = {add_raw(*scope.graph, "shape", {arguments[0]}, one_axis(0), label)->out(), nullptr};
  for (const auto& [outside, inside] : batch.captures) inputs.push_back(outside);
  const int outputs = static_cast<int>(inner->outputs.size());
  return add_raw(*scope.graph, "loop", std::move(inputs), {{"body", std::move(graph)}}, label, outputs);
}

Status Builder::add_scan(const NodeRecord& node, const std::string& label, int64_t opset, Scope& scope) {
  std::vector<ir::Value*> inputs;
  PERI_TRY(lookup(node, scope, &inputs));
  const bool batched = opset < kFirstWithoutBatch;
  if (batched && !inputs.empty()) {
    if (inputs[0])
      return unsupported("sequence lengths of a Scan are not supported")
          .advise("convert the model to opset 9 or later, where Scan has none");
    inputs.erase(inputs.begin());
  }
  for (const ir::Value* v : inputs)
    if (!v) return invalid("an input of a Scan is left out");
  PERI_ASSIGN(const ScanPlan plan, plan_scan(node, opset, inputs.size()));
  PERI_ASSIGN(ir::Node * n, batched ? batched_scan(plan, inputs, label, scope) : scan_loop(plan, inputs, label, scope));
  if (node.outputs.size() > n->outputs.size())
    return invalid("a Scan has %zu results", node.outputs.size()).expecting(format("at most %zu", n->outputs.size()));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    scope.graph->rename(n->outputs[k], scope.prefix + std::string(node.outputs[k]));
    scope.values[std::string(node.outputs[k])] = n->outputs[k];
  }
  return Ok{};
}

}  // namespace peri::onnx
