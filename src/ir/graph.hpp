// ir::Graph: values, nodes and attributes of a model between importer and backend. A value's type is dtype, symbolic
// shape and physical layout; a node names its op; weights are shared tensors. Plain data with maintained use lists.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dim.hpp"
#include "base/tensor.hpp"

namespace peri::ir {

// Physical order of a tensor's axes, outermost first; empty means row-major. `block_axis` >= 0: that axis is split and
// its inner part of `block` elements is innermost (order {0,1,2,3}, block_axis 1, block 16 is nChw16c).
struct Layout {
  std::vector<uint8_t> order;
  int block_axis = -1;
  int block = 0;
  bool row_major() const { return order.empty() && block_axis < 0; }
  friend bool operator==(const Layout&, const Layout&) = default;
};
Layout nhwc();  // order 0,2,3,1

struct Type {
  DType dtype = DType::kInvalid;  // kInvalid: not known yet
  std::optional<Shape> shape;     // none: rank not known yet
  Layout layout;

  Type() = default;
  Type(DType d, Shape s) : dtype(d), shape(std::move(s)) {}
  bool known() const { return dtype != DType::kInvalid && shape.has_value(); }
  size_t rank() const { return shape->size(); }  // REQUIRES a known shape
  friend bool operator==(const Type&, const Type&) = default;
};
// "f32[batch,3,224,224]", "i64[?]" for an unknown rank, "f32[1,64,56,56]@0231", "...@0123:1x16".
std::string type_text(const Type& type);
Result<Type> parse_type(std::string_view text);

class Graph;
struct Node;

// One attribute. Sub-graphs are owned and may be shared between clones only by deep copy.
using Attr =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>,
                 std::vector<Dim>, Tensor, std::shared_ptr<Graph>, std::vector<std::shared_ptr<Graph>>>;
using Attrs = std::map<std::string, Attr, std::less<>>;
bool same_attr(const Attr& a, const Attr& b);

struct Value {
  int id = 0;
  std::string name;  // unique within the graph
  Type type;
  Node* producer = nullptr;                 // null: graph input or constant
  int output_index = 0;                     // which output of the producer
  std::vector<Node*> users;                 // one entry for each use as an input; maintained by Graph
  std::optional<Tensor> constant;           // set: a weight or constant
  std::optional<std::vector<Dim>> content;  // integer tensors whose elements are known expressions, row-major
  bool is_input = false;
};

struct Node {
  int id = 0;
  std::string op;               // IR name of the op, as in ops/: "conv", "layer_normalization"
  std::string name;             // for people; not unique
  std::vector<Value*> inputs;   // null: optional input left out
  std::vector<Value*> outputs;  // never null; an unused optional output has no users
  Attrs attrs;
  std::vector<std::string> origins;     // nodes of the model that this one was made from
  std::vector<std::string> touched_by;  // passes that made or changed it

  Value* in(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* out(size_t i = 0) const { return i < outputs.size() ? outputs[i] : nullptr; }
  // Attribute access with a default; a stored attribute of another kind is our bug (the verifier has checked it).
  int64_t i(std::string_view key, int64_t fallback = 0) const;
  double f(std::string_view key, double fallback = 0) const;
  std::string s(std::string_view key, std::string_view fallback = "") const;
  std::vector<int64_t> ints(std::string_view key, std::vector<int64_t> fallback = {}) const;
  std::vector<double> floats(std::string_view key) const;
  const std::vector<Dim>* dims(std::string_view key) const;
  const Tensor* tensor(std::string_view key) const;
  bool has(std::string_view key) const { return attrs.find(key) != attrs.end(); }
};

class Graph {
 public:
  Graph() = default;
  explicit Graph(std::string name) : name(std::move(name)) {}
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph clone() const;  // deep, but tensors share their bytes; ids and names are kept

  std::string name;
  std::vector<Value*> inputs;             // in the order of the interface
  std::vector<Value*> outputs;            // may repeat a value, may be an input or a constant
  std::vector<std::string> output_names;  // interface names, one for each output
  std::vector<Node*> nodes;               // after sort(): every producer before its users

  // `name` empty or taken: a fresh unique one is made from it.
  Value* add_input(std::string_view name, Type type);
  Value* add_constant(std::string_view name, Tensor tensor);
  // A node with `outputs` new values (types unknown), appended. Output names: from `out_name`.
  Node* add(std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}, std::string_view out_name = "",
            int outputs = 1);
  Value* add_output_value(Node* node, std::string_view name);
  void mark_output(Value* v, std::string_view interface_name);

  void set_input(Node* node, size_t index, Value* v);
  void append_input(Node* node, Value* v);
  // Replaces every use of `from`, as an input or as a graph output, by `to`. The output keeps its interface name.
  void replace_uses(Value* from, Value* to);
  // REQUIRES: no output of the node has users or is a graph output.
  void erase(Node* node);
  // REQUIRES: a value without producer and users that is neither a graph output nor a graph input.
  void forget(Value* v);
  // Erases nodes and constants that nothing depends on; returns the number of nodes erased.
  int erase_dead();
  // Stable topological order; error (naming a node on it) if there is a cycle.
  Status sort();

  Value* find(std::string_view value_name) const;
  bool is_output(const Value* v) const;
  void rename(Value* v, std::string_view name);
  std::vector<Value*> constants() const;
  const std::vector<std::unique_ptr<Value>>& values() const { return values_; }

 private:
  Value* new_value(std::string_view name);
  std::string free_name(std::string_view wanted);
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, Value*, std::less<>> by_name_;
  std::map<std::string, int, std::less<>> last_suffix_;  // last suffix used, by name
  int next_id_ = 0;
};

// Text form of a whole graph; parse_graph(print) gives an equal graph. Constants of up to `inline_limit` elements are
// printed in full, larger ones as data("name", hash) resolved by `weights`.
struct PrintOptions {
  int64_t inline_limit = 16;
  bool origins = true;
};
std::string print(const Graph& graph, const PrintOptions& options = {});

// Finds the tensor of a constant of which the text has only name and hash. Null result: error.
using WeightResolver = std::function<std::optional<Tensor>(std::string_view name, uint64_t content_hash)>;
Result<Graph> parse_graph(std::string_view text, const WeightResolver& weights = {});

// Structure checks that need no op table: use lists, names, order, outputs present, ids. Ops are checked in ops/.
Status verify_structure(const Graph& graph);
// Equal up to ids and the names of values that are not part of the interface: compares printed forms after canonical
// renaming.
bool equal(const Graph& a, const Graph& b);

}  // namespace peri::ir
