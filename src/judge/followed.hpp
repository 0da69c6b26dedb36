// Compares an output behind roundings or choices value by value: where a model rounds to a byte at a tie, one unit
// propagates through all layers, and the outputs of two correct engines differ everywhere. Each value that the engine
// keeps under a name of the model is computed from those kept before it, by the model, not the engine.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "ir/graph.hpp"
#include "runtime/engine.hpp"

namespace peri::judge {

struct Followed {
  int64_t values = 0;    // of the model that the engine keeps, proven on the way to the output
  int64_t unproven = 0;  // that are not, and say nothing: what comes after is held from the values before them
  int64_t ties = 0;      // elements of them that are another than the exact one, each reached within the round-off
  std::string wrong;     // where it is not proven; empty: the answer is one that float32 arithmetic may give
  bool at_elements =
      false;  // and that is said of elements of the answer itself, which lie where the model does not reach
};

struct FollowTerms {
  int threads = 1;
  // Values of more elements are held at so many of them, the first, the last and seeded ones between; 0: at all.
  int64_t positions = 0;
  std::function<void(const std::string& value)> progress = {};  // told each value before it is judged
};

// Whether output `k` of the model, which the session answered with `got`, is an answer of the model's operators, each
// within its own error in float32. A value is proven if each of its elements lies within the radius of the exact one,
// or is reached by the reference that is shaken within the same (RefOptions::shake); then what follows goes on from it.
// One that is not proven counts as not kept. `graph` is the model before any pass. Runs the session again, and sets its
// step hook. Errors: those of the run and of the reference; kRefused where the values are too many to keep.
Result<Followed> follow(const ir::Graph& graph, size_t k, runtime::Session& session, std::span<const Tensor> inputs,
                        const Tensor& got, const FollowTerms& terms);

// Whether the value hangs on a float that is rounded to an integer, compared or chosen among.
bool behind_jump(const ir::Graph& graph, const ir::Value* value);

}  // namespace peri::judge
