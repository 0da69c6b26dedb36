// Problem: a region as a value: its graph and which inputs are weights. It has one text that parses back and one hash;
// tuner, cache, wire, lock, proof and replay identify a region by these only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace peri::problem {

struct Problem {
  ir::Graph graph;
  std::vector<bool> weights = {};  // for each input: a constant whose bytes a kernel gets when it is created

  Problem clone() const { return {graph.clone(), weights}; }
};

// By the ops' definitions: the inputs that are used as weight, bias, scale or variance and for nothing else.
std::vector<bool> weights_by_role(const ir::Graph& graph);

// Names inputs x0, x1, ... and all other values by their position, as in regions cut from a model: problems that differ
// only in names then have the same text.
ir::Graph canonical(const ir::Graph& graph);

// The complete problem, constants of more than 1024 elements by their hash: the text that is compared and hashed.
std::string identity(const ir::Graph& graph, const std::vector<bool>& weights);
// 16 hex digits of the hash of identity(). Without weights: of the region alone, for any sizes, as a lock names it.
std::string hash(const ir::Graph& graph, const std::vector<bool>& weights = {});
inline std::string hash(const Problem& p) { return hash(p.graph, p.weights); }

// The whole problem. An anchor with its epilogue is one line of words,
//   conv x=f32[8,64,56,56] w=f32[64,64,3,3] pads=1,1,1,1 +bias +add +relu
// another region "region", its facts, and its graph as IR text:
//   region weights=x1 known=x2:[3,4] graph { ... }
// docs/architecture.md has the grammar.
std::string text(const ir::Graph& graph, const std::vector<bool>& weights);
inline std::string text(const Problem& p) { return text(p.graph, p.weights); }
// For messages: the one line, or "region @HASH".
std::string name(const ir::Graph& graph, const std::vector<bool>& weights);
inline std::string name(const Problem& p) { return name(p.graph, p.weights); }

// What text() gives, or a graph alone, whose weights are those by role. Types are inferred; stated ones must agree.
// Errors: kInvalid that says where.
Result<Problem> parse(std::string_view text);

}  // namespace peri::problem
