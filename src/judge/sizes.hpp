// The sizes at which an engine is judged: the tuned one, a smaller and a larger one that the model supports.
#pragma once

#include "ir/graph.hpp"
#include "plan/program.hpp"

namespace peri::judge {

// `graph` after the passes, types inferred. The tuned size first; a model of fixed sizes has no other. The others
// change every named dimension of the inputs together where the model's shapes allow it, else one alone; they stay
// within `bounds` (requested smallest and largest sizes; empty: none), which are used themselves where they differ from
// the tuned size.
std::vector<DimBinding> sizes_to_judge(const ir::Graph& graph, const DimBinding& tuned_for,
                                       const std::vector<DimBinding>& bounds);

// Whether each value has, at these sizes, the shape that inference with symbols gave it, as regions within the graph
// state it: at a size of 1 a broadcast can go the other way.
bool possible(const ir::Graph& graph, const DimBinding& sizes);

// Why a judged run at these sizes is not started: it would write to more memory than is free. "": it can be.
// `separate`: with every buffer in separate memory.
std::string lacks_memory(const plan::Program& program, const DimBinding& sizes, bool separate);
// The same of a number of bytes. `what`: the words before them, "a run takes".
std::string lacks_memory(double bytes, const char* what);
// What judging such a run takes: its memory, every buffer separately besides, and the float64 reference of the largest
// step. An error where a size is open.
Result<double> bytes_to_judge(const plan::Program& program, const DimBinding& sizes);
// Why what such a run gives is not judged, though it can be run. "": it can be.
std::string lacks_memory_to_judge(const plan::Program& program, const DimBinding& sizes);
// The same as the first for the inputs and outputs alone, before there is a program.
std::string lacks_memory(const ir::Graph& graph, const DimBinding& sizes);

}  // namespace peri::judge
