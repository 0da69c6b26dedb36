// One run of a loop: carried values alternate between two buffers, parts of scan outputs are concatenated.
#pragma once

#include "exec/control/body.hpp"

namespace peri::exec {

struct LoopPlan {
  size_t carried = 0;
  std::vector<int64_t> axes, reversed;  // of the scan outputs
  const plan::Program* program = nullptr;
  const plan::Step* step = nullptr;
  int64_t max_iterations = 0, memory_bytes = 0;
  std::unique_ptr<Body> body;
};

// Errors: kInvalid for a malformed payload. Axes that are not stated are 0, for the results after the carried ones.
Result<LoopPlan> read_loop_payload(std::string_view payload, size_t results);
std::string loop_payload(size_t carried, const std::vector<int64_t>& axes, const std::vector<int64_t>& reversed);

// `types`: of the step's reads. Allocates nothing for values in an iteration where their sizes do not change, except
// scan outputs, whose memory doubles as they grow. Errors: kInvalid beyond the allowed iterations, kMemory where scan
// outputs or carried values grow beyond the memory, a scan output that changes its shape, those of the body.
Status run_loop(const LoopPlan& plan, const std::vector<ArgType>& types, const runtime::RunContext& context);

}  // namespace peri::exec
