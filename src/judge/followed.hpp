// An answer behind roundings or choices, held value by value: where a model rounds to a byte at a tie, one unit goes on
// through all layers, and the answers of two right engines differ everywhere. Each value that the engine keeps under a
// name of the model is judged from those kept before it, as the model, not the engine, computes it.
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
};

// Whether output `k` of the model, which the session answered with `got`, is an answer of the model's operators, each
// within its own error in float32. A value is proven if each of its elements lies within the radius of the exact one,
// or is reached by the reference that is shaken within the same (RefOptions::shake); then what follows goes on from it.
// One that is not proven counts as not kept. `graph` is the model before any pass; `progress` is told each value before
// it is judged. Runs the session again, and sets its step hook. Errors: those of the run and of the reference; kRefused
// where the values are too many to keep.
Result<Followed> follow(const ir::Graph& graph, size_t k, runtime::Session& session, std::span<const Tensor> inputs,
                        const Tensor& got, int threads,
                        const std::function<void(const std::string& value)>& progress = {});

// Whether the value hangs on a float that is rounded to an integer, compared or chosen among.
bool behind_jump(const ir::Graph& graph, const ir::Value* value);

}  // namespace peri::judge
