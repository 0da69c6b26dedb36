// Names in a graph or function body: each defined once, each use defined, an order in which the nodes can run.
#pragma once

#include <functional>
#include <span>

#include "onnx/model.hpp"
#include "onnx/name_table.hpp"

namespace peri::onnx {

// Names visible from enclosing graphs.
struct OuterNames {
  const OuterNames* parent = nullptr;
  const NameTable* names = nullptr;
  bool all = false;  // every name: what a body uses from outside was checked before
  bool contains(std::string_view name) const;
};

struct ScopeCheck {
  const char* base = nullptr;
  std::span<const Body> nodes;
  std::vector<std::string_view> given;    // inputs and initialisers, already without duplicates
  std::vector<std::string_view> outputs;  // must be defined
  const OuterNames* outer = nullptr;
  int depth = 0;  // of nested graphs
  // Called once for every node, those of nested graphs too (depth > 0).
  std::function<Status(const NodeRecord&, int depth)> visit;
};

// Indices of `nodes` in an order in which every value precedes its uses; the order of the file if it is valid. Errors
// (kInvalid, naming the node): no operator, no output, a name defined twice, an undefined name, a cycle, graphs nested
// deeper than 32.
Result<std::vector<uint32_t>> check_scope(const ScopeCheck& scope);

}  // namespace peri::onnx
