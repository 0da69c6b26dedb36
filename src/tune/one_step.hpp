// A problem and an offer as a Program of one step, as lowering emits it: what is tried is what an engine runs.
#pragma once

#include "plan/program.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

// Weights of the program stand for the region's inputs: its weights as they are, the others as the step's arguments
// come to be, by a copy before it, so that a result may take their memory.
struct OneStep {
  plan::Program program;
  size_t step = 0;                 // of the problem; copies stand before it
  std::vector<int32_t> arguments;  // per input of the region, the buffer that the step reads
  std::vector<int32_t> results;    // per output
};

// `shared`: for each output the input whose memory it takes, or -1. `device`: where all of it lies and runs; "host" or
// the name of another. Error: what no offer may say.
Result<OneStep> one_step(const ir::Graph& region, const std::vector<bool>& weights, const Candidate& candidate,
                         const std::vector<int>& shared, const std::string& device = "host");

}  // namespace peri::tune
