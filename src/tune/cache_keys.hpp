// Keys of the timing cache: everything that a verdict and a time depend on besides machine and problem. A rebuilt
// program keeps the results of unchanged sources; a changed kernel or op definition is judged again.
#pragma once

#include <string>
#include <vector>

#include "tune/tuner.hpp"

namespace peri::tune {

// Candidate with its layouts and memory sharing, the kernel's sources, and the definitions of the region's ops.
std::string candidate_key(const Candidate& candidate, const ir::Graph& region);
// Problem, and the amount read between its timed runs: with weights, about as much as the model has. A verdict does not
// depend on that amount, but shares the row of its time: apart it would serve only a problem with weights that recurs
// in a model of another size, and save there what the proof's `verification.problems.spent` has besides `timing`,
// seconds for a whole network, while a candidate that is only timed has no result that others could be compared with.
std::string timing_key(const ir::Graph& region, const std::vector<bool>& constant, const Options& options);
// For tier 1, which tries a kernel on samples of any op.
std::string samples_key(const kernels::Kernel& kernel, const std::string& library);

}  // namespace peri::tune
