// A problem and an offer as a Program of one step, as lowering emits it: trials run what an engine runs.
#pragma once

#include "plan/program.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

// Weights of the program represent the region's inputs: its weights directly, the others through a copy before the
// step, as arguments are produced in an engine, so that a result may reuse their memory.
struct OneStep {
  plan::Program program;
  size_t step = 0;                 // of the problem; copies precede it
  std::vector<int32_t> arguments;  // per input of the region, the buffer that the step reads
  std::vector<int32_t> results;    // per output
};

// `shared`: for each output the input whose memory it reuses, or -1. `device`: where everything is allocated and runs;
// "host" or the name of another. Errors: an invalid offer.
Result<OneStep> one_step(const ir::Graph& region, const std::vector<bool>& weights, const Candidate& candidate,
                         const std::vector<int>& shared, const std::string& device = "host");

}  // namespace peri::tune
