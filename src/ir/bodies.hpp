// Bodies: graphs that a node holds as attributes and executes (the branches of an if, the body of a loop). A body is
// closed: values of the enclosing graph are passed as further inputs, after those that the op defines, and are
// arguments of the node.
#pragma once

#include <functional>
#include <span>
#include <unordered_set>

#include "ir/graph.hpp"

namespace peri::ir {

// Sorted by attribute name; an attribute's graph is never null.
std::vector<std::pair<std::string, std::shared_ptr<Graph>>> bodies_of(const Node& node);
bool has_bodies(const Node& node);
// The graph's nodes and, recursively, those of bodies.
void for_each_node(const Graph& graph, const std::function<void(const Node&)>& visit);

// Copies the body's nodes and constants into the graph, replacing its inputs by `arguments`; returns the values of its
// outputs there. The nodes are inserted into Graph::nodes at `position`; `made` receives their number. Types are copied
// unchanged.
std::vector<Value*> inline_body(Graph& graph, const Graph& body, std::span<Value* const> arguments, size_t position,
                                size_t* made);

// Replaces named dimensions by expressions in the attributes of the graph's own nodes (not of bodies).
void substitute_attrs(Graph& graph, const std::map<std::string, Dim, std::less<>>& dims);

// `wanted`, or with the first suffix ".1", ".2", ... that makes it differ from all of `taken`, to which it is added.
std::string unique_name(std::string wanted, std::unordered_set<std::string>* taken);

// Removes input `k` of a body. REQUIRES: it has no users and is no output.
void drop_input(Graph& body, size_t k);

}  // namespace peri::ir
