// Locks of a build: what they hold, and which model they were made of.
#pragma once

#include <string>

#include "compile/compile.hpp"

namespace peri::compile {

// Of the graph as imported, with inputs and outputs in the types of a run.
plan::LockedModel locked_model(const ir::Graph& imported);
plan::Lock lock_of(const Options& options, const plan::LockedModel& model, const Compiled& made);
// What to say of a lock that was made of another model; "" where it was not, or does not say. A lock is for choices: it
// fits models whose steps are alike, such as one that was trained further.
std::string other_model_note(const plan::LockedModel& locked, const plan::LockedModel& here);

}  // namespace peri::compile
