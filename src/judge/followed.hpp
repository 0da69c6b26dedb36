// Compares an output that depends on roundings or choices value by value: where a model rounds to a byte at a tie, one
// unit propagates through all layers, and the outputs of two correct engines differ everywhere. Each value that the
// engine keeps under a name of the model is computed from those kept before it, by the model, not the engine.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "ir/graph.hpp"
#include "runtime/engine.hpp"

namespace peri::judge {

struct Followed {
  int64_t values = 0;     // of the model, kept by the engine and verified on the way to the output
  int64_t unproven = 0;   // not verified, and ignored: later values are computed from those before them
  int64_t off = 0;        // of those, the values of the model's type: others only have its name
  int64_t unbounded = 0;  // elements of those verified whose radius is not finite
  std::string first;      // of those that were not verified, one that is off if there is one, and why
  int64_t ties = 0;       // elements of them that differ from the exact one within the round-off of a tie
  std::string wrong;      // where verification failed; empty: the result is one that float32 arithmetic may give
  bool at_elements =
      false;  // the failure is in elements of the output itself that no intermediate value of the model covers
};

struct FollowTerms {
  int threads = 1;
  // Values of more elements are compared at this many, including the first and the last; 0: at all.
  int64_t positions = 0;
  std::function<void(const std::string& value)> progress = {};  // called for each value before it is judged
};

// Whether output `k` of the model, which the session returned as `got`, is a result of the model's operators, each
// within its own error in float32. A value is verified if each of its elements lies within the radius of the exact one,
// or is reached by the reference perturbed within the same (RefOptions::shake); later values are then computed from it.
// One that is not verified counts as not kept. `graph` is the model before any pass. Runs the session again, and sets
// its step hook. Errors: those of the run and of the reference; kRefused where the values are too many to keep.
Result<Followed> follow(const ir::Graph& graph, size_t k, runtime::Session& session, std::span<const Tensor> inputs,
                        const Tensor& got, const FollowTerms& terms);

// The first of the model's values of these names that the engine keeps and that is none which the model's own nodes
// make of those before it; `why` then. "": there is none. Otherwise as follow().
Result<std::string> first_unfollowed(const ir::Graph& graph, std::span<const std::string> names,
                                     runtime::Session& session, std::span<const Tensor> inputs,
                                     const FollowTerms& terms, std::string* why);

// Whether the value depends on a float that is rounded to an integer, compared or selected.
bool behind_jump(const ir::Graph& graph, const ir::Value* value);

}  // namespace peri::judge
