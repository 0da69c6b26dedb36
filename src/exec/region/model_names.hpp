// The names of a region's values and nodes in the model that it was cut from: a region counts its own (x0, t2), and an
// error that reaches a user must not name these.
#pragma once

#include <string>

#include "base/result.hpp"
#include "ir/graph.hpp"
#include "plan/program.hpp"

namespace peri::exec {

// Of one step; a copy is cheap. Both pointers outlive it, or are null: then errors stay as they are.
struct ModelNames {
  const plan::Program* program = nullptr;
  const plan::Step* step = nullptr;

  // An error about `region`, the payload of the step, as one about the model: its node is the model's; where inference
  // or the reference refused a node of the region, the message begins with the operator and its arguments; values that
  // the message quotes have the model's names. A value within a region, which may have none there, is "the result of
  // ADD".
  Error of(Error error, const ir::Graph& region) const;
};

}  // namespace peri::exec
