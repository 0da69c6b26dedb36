// The builder of a graph, scope by scope: the model's own, one for every call of a function, one for every body.
#pragma once

#include <unordered_map>

#include "onnx/build_graph.hpp"

namespace peri::onnx {

// Names of one graph, function call or body. `prefix` makes inner names unique; `path` is for messages.
struct Scope {
  const Opsets& opsets;
  std::string prefix, path;
  std::unordered_map<std::string, ir::Value*> values;
  std::vector<AttrRecord> attrs;  // of the call, references resolved
  ir::Graph* graph = nullptr;     // the graph of its nodes
  // For a body: the enclosing scope. Values used from it become inputs of the body, except constants.
  Scope* parent = nullptr;
  std::vector<std::pair<ir::Value*, ir::Value*>> captures = {};  // outside, inside
};

class Builder {
 public:
  Builder(const Survey& survey, WeightFiles& weights) : survey_(survey), weights_(weights) {}
  Result<BuiltGraph> run();

 private:
  void add_inputs(Scope& scope);
  void add_initializer(std::string_view name, Tensor tensor, Scope& scope);
  bool is_fixed(std::string_view initializer, const Scope& scope) const;
  Status add_initializers(const GraphRecord& g, Scope& scope);
  Status check_default_inputs(const GraphRecord& g, const Scope& scope) const;
  Status add_nodes(const std::vector<std::string_view>& nodes, const std::vector<uint32_t>& order, Scope& scope);
  Status add_node(const NodeRecord& node, Scope& scope);
  Status add_op(const NodeRecord& node, const std::string& label, Scope& scope);
  void add_results(const NodeRecord& node, ir::Node* n, Scope& scope);
  Status inline_call(const NodeRecord& node, const Function& function, const std::string& label, Scope& scope);
  Status resolve_references(NodeRecord& node, const Scope& scope);
  Status lookup(const NodeRecord& node, Scope& scope, std::vector<ir::Value*>* out);
  // Looks up a name in the scope; false: it is not defined. Null: a function's input that the call omits.
  bool find(std::string_view name, Scope& scope, ir::Value** out);

  // ---- control.cpp
  Status add_control(const NodeRecord& node, const std::string& label, int64_t opset, Scope& scope);
  Status add_if(const NodeRecord& node, const std::string& label, Scope& scope);
  Status add_loop(const NodeRecord& node, const std::string& label, Scope& scope);
  Status add_map(const NodeRecord& node, const std::string& label, Scope& scope);
  // Adds initializers, nodes and outputs of a body, whose inputs are `formals`.
  Status fill_body(const GraphRecord& g, const std::vector<ir::Value*>& formals, Scope& body);
  Result<GraphRecord> body_record(const NodeRecord& node, std::string_view key) const;
  // A node of the newest form that is completed like those of the model.
  ir::Node* add_raw(ir::Graph& graph, std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs,
                    const std::string& label, int outputs = 1);

  // ---- scan.cpp
  struct ScanPlan;
  Status add_scan(const NodeRecord& node, const std::string& label, int64_t opset, Scope& scope);
  Result<ScanPlan> plan_scan(const NodeRecord& node, int64_t opset, size_t inputs) const;
  Result<ir::Node*> scan_loop(const ScanPlan& plan, const std::vector<ir::Value*>& arguments, const std::string& label,
                              Scope& scope);
  Result<ir::Node*> batched_scan(const ScanPlan& plan, const std::vector<ir::Value*>& arguments,
                                 const std::string& label, Scope& scope);

  const Survey& survey_;
  WeightFiles& weights_;
  BuiltGraph out_;
  int depth_ = 0;
};

}  // namespace peri::onnx
