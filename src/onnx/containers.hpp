// Sequences and optionals, which are resolved when a model is completed: a sequence becomes the list of its values, or
// the tensor of all of them if a loop produces it; an optional becomes its content, or nothing.
#pragma once

#include "ir/graph.hpp"
#include "onnx/import.hpp"

namespace peri::onnx {

// Represents a sequence whose elements, all of one shape, are one tensor along a new first axis.
constexpr std::string_view kStacked = "sequence_stacked";

// Whether the value is a sequence or an empty optional.
bool is_container(const ir::Value* v);
// Elements of a sequence that is a list; null: not a list.
const std::vector<ir::Value*>* elements_of(const ir::Value* v);

// Resolves the node at g.nodes[*at] if it produces or uses a sequence or optional, and returns whether it did: `at` is
// then the index to continue with. Its inputs are typed; so are new nodes, except those of copied bodies.
Result<bool> open_container(ir::Graph& g, size_t* at, int64_t* fresh);
// The same for an if or loop with sequences among its arguments; it may remain, without them. See container_bodies.cpp.
Result<bool> open_container_bodies(ir::Graph& g, size_t* at, int64_t* fresh);
// A result that is a sequence becomes one result per element, NAME.K; one produced by a loop stays one tensor, and an
// optional is replaced by its content, or by no result.
void open_results(ir::Graph& g, std::vector<PortInfo>* declared);
// Removes nodes left over from sequences; kUnsupported where one is a result.
Status drop_containers(ir::Graph& g);

// Creates nodes of the newest form, typed at once.
class TypedNodes {
 public:
  TypedNodes(ir::Graph& g, const ir::Node& origin, int64_t* fresh) : g_(g), origin_(origin), fresh_(fresh) {}
  Result<std::vector<ir::Value*>> ops(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs,
                                      int outputs);
  Result<ir::Value*> op(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs = {});
  ir::Value* ints(std::vector<int64_t> v);
  ir::Value* scalar(DType type, int64_t v);
  // All elements stacked along a new first axis.
  Result<ir::Value*> stacked(const std::vector<ir::Value*>& elements);
  // A sequence that is a list, or a tensor.
  ir::Value* list(std::vector<ir::Value*> elements) { return untyped("sequence_construct", std::move(elements)); }
  ir::Value* of_tensor(ir::Value* all) { return untyped(kStacked, {all}); }

 private:
  ir::Value* untyped(std::string_view op, std::vector<ir::Value*> inputs);
  ir::Graph& g_;
  const ir::Node& origin_;
  int64_t* fresh_;
};

}  // namespace peri::onnx
