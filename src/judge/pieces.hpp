// Pieces of a model that are computed by themselves, and its weights as an engine that keeps them in 16 bits has them.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/entry.hpp"

namespace peri::judge {

// Values that are given.
using Known = std::unordered_map<const ir::Value*, Tensor>;

// What makes one value from those at hand.
struct Piece {
  ir::Graph graph;
  std::vector<const ir::Value*> arguments;
  bool jumps = false;  // a float that it computes is rounded, compared or chosen among
};

// Whether a float that a node computed is rounded to integers, compared or chosen among by this one.
bool jumps_on(const ir::Node& n);
// Values that depend on such a node.
std::unordered_set<const ir::Value*> values_behind_jumps(const ir::Graph& model);
// In order, what `wanted` hang on and is not made by what is known.
std::vector<const ir::Node*> way_to(const ir::Graph& model, std::span<const ir::Value* const> wanted,
                                    const Known& known);
Piece piece_of(const ir::Graph& model, const ir::Value* wanted, const Known& known);

// Whether a node reads at `port` a float32 weight that constants alone make and a build may store in fewer bits.
bool is_weight(const ir::Node& n, size_t port);
// What the constants of the model make of such a weight. Errors: those of the reference.
Result<Tensor> fixed_value(const ir::Graph& model, const ir::Value* weight, int threads);
// A float32 tensor rounded to a type of 16 bits, in float32. Errors: kMemory.
Result<Tensor> as_stored(const Tensor& exact, DType stored);
// The model with its weights rounded to a type of 16 bits, those of bodies too, but for those that are so small that no
// build stores them in it. Errors: those of the reference.
Result<ir::Graph> with_stored_weights(const ir::Graph& model, DType stored, int threads);

}  // namespace peri::judge
