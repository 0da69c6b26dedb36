// Conversions of nodes of older operator versions to the newest form.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

// A 1-D int64 constant of the graph.
ir::Value* ints_constant(ir::Graph& graph, std::string_view name, std::span<const int64_t> values);
// Attribute `key` (ints) becomes input `port` and is removed. No effect if it is missing.
Status ints_to_input(ir::Graph& graph, ir::Node& node, std::string_view key, size_t port);
// Attribute `key` (float) becomes a scalar input of the type of input 0.
Status float_to_input(ir::Graph& graph, ir::Node& node, std::string_view key, size_t port);
// Sets input `port`, filling missing ones before it with "left out".
void put_input(ir::Graph& graph, ir::Node& node, size_t port, ir::Value* v);

}  // namespace peri::ops
