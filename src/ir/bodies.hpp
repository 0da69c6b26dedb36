// Bodies: graphs that a node holds as attributes and runs (the branches of an if, the body of a loop). A body is
// closed: what it takes from outside are inputs of its own, behind those that its node gives it, and arguments of the
// node.
#pragma once

#include <functional>
#include <span>
#include <unordered_set>

#include "ir/graph.hpp"

namespace peri::ir {

// By attribute name, in their order; an attribute's graph is never null.
std::vector<std::pair<std::string, std::shared_ptr<Graph>>> bodies_of(const Node& node);
bool has_bodies(const Node& node);
// The graph's nodes and, recursively, those of bodies.
void for_each_node(const Graph& graph, const std::function<void(const Node&)>& visit);

// Copies the body's nodes and constants into the graph, its inputs standing for `arguments`; returns its outputs there.
// The nodes stand in Graph::nodes from `position` on; `made` is told how many. Types are copied as they are.
std::vector<Value*> inline_body(Graph& graph, const Graph& body, std::span<Value* const> arguments, size_t position,
                                size_t* made);

// Names in attributes become expressions, in the graph's own nodes.
void substitute_attrs(Graph& graph, const std::map<std::string, Dim, std::less<>>& dims);

// `wanted`, or with the first suffix ".1", ".2", ... that makes it differ from all of `taken`, to which it is added.
std::string unique_name(std::string wanted, std::unordered_set<std::string>* taken);

// Takes input `k` from a body. REQUIRES: no users, no output.
void drop_input(Graph& body, size_t k);

}  // namespace peri::ir
