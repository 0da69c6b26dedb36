// Operators that are composed of other nodes: an upgrade replaces them at import.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

class Composed {
 public:
  Composed(ir::Graph& graph, ir::Node& node) : graph_(graph), node_(node) {}

  ir::Value* in(size_t port) const { return port < node_.inputs.size() ? node_.inputs[port] : nullptr; }
  bool has(size_t port) const { return in(port) != nullptr; }
  // Whether output `port` may be used.
  bool wants(size_t port) const {
    return port < node_.outputs.size() &&
           (!node_.outputs[port]->users.empty() || graph_.is_output(node_.outputs[port]));
  }
  // The first output of a new node.
  ir::Value* op(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs = {}) {
    return graph_.add(op, std::move(inputs), std::move(attrs), node_.name)->out();
  }
  // All outputs of a new node.
  std::vector<ir::Value*> ops(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs, int outputs) {
    return graph_.add(op, std::move(inputs), std::move(attrs), node_.name, outputs)->outputs;
  }
  ir::Value* constant(Tensor t) { return graph_.add_constant(node_.name, std::move(t)); }
  ir::Value* scalar(DType type, double v);
  ir::Value* ints(std::vector<int64_t> v);
  ir::Value* cast(ir::Value* x, DType to) { return op("cast", {x}, {{"to", static_cast<int64_t>(to)}}); }
  // Elements [begin, end) along an axis.
  ir::Value* slice(ir::Value* x, int64_t axis, int64_t begin, int64_t end) {
    return op("slice", {x, ints({begin}), ints({end}), ints({axis})});
  }

  // Replaces output `port` by `v`.
  void give(size_t port, ir::Value* v);
  // Removes the composed node, once all of its outputs are replaced.
  Status done();

 private:
  ir::Graph& graph_;
  ir::Node& node_;
};

// Error: the type or rank of an input is not known.
Status check_known(const ir::Node& node);
// Inference of an operator that import replaces.
Status infer_composed(InferContext& c);
// Such an operator of com.microsoft, version 1, which `upgrade` replaces; without `outputs` it has one, y.
using Upgrade = Status (*)(ir::Graph&, ir::Node&, int);
OpDef composed(std::string_view name, std::string_view onnx, std::vector<Port> inputs, std::vector<Port> outputs,
               std::vector<AttrSpec> attrs, Upgrade upgrade);
OpDef composed(std::string_view name, std::string_view onnx, std::vector<Port> inputs, std::vector<AttrSpec> attrs,
               Upgrade upgrade);

}  // namespace peri::ops
