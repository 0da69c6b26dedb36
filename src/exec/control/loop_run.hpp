// One run of a loop: carried values alternate between two buffers, parts of scan outputs are stacked. What a run needs
// is kept for the next one.
#pragma once

#include <array>
#include <optional>

#include "exec/control/body.hpp"

namespace peri::exec {

// What is the same in all runs at the same sizes.
struct LoopSizes {
  std::vector<ArgType> reads;
  std::vector<ArgType> results;  // none: the run binds them
  // The body's outputs whose sizes are the same in every iteration, with their dims; no dims: they may change.
  std::vector<std::optional<std::vector<int64_t>>> steady;
};

// The parts of a scan output.
struct Stack {
  Tensor own;               // memory for parts
  std::byte* at = nullptr;  // where they lie: `own`, or the result itself
  bool in_result = false;
  Tensor one;  // a part that the body writes to aligned memory, and that is copied to the stack
  std::vector<std::string> strings;
  std::vector<int64_t> dims, whole;  // of a part, and of the result
  size_t part = 0;                   // bytes of one
  int64_t count = 0, room = 0;       // parts
};

struct LoopMemory {
  std::shared_ptr<const LoopSizes> sizes;  // for which it is
  std::vector<runtime::View> inputs, given;
  std::vector<std::array<Tensor, 2>> places;  // of carried values, written in turn
  std::vector<Tensor> others, held;           // outputs that change their size, and carried values
  std::vector<Stack> stacks;
  int64_t iteration = 0;
  uint8_t go = 1, more = 0;
};

struct LoopPlan {
  size_t carried = 0;
  std::vector<int64_t> axes, reversed;  // of the scan outputs
  const plan::Program* program = nullptr;
  const plan::Step* step = nullptr;
  int64_t max_iterations = 0, memory_bytes = 0;
  std::unique_ptr<Body> body;
  std::unique_ptr<Kept<LoopMemory>> memories = std::make_unique<Kept<LoopMemory>>();
};

// Errors: kInvalid for a malformed payload. Axes that are not stated are 0, for the results after the carried ones.
Result<LoopPlan> read_loop_payload(std::string_view payload, size_t results);
std::string loop_payload(size_t carried, const std::vector<int64_t>& axes, const std::vector<int64_t>& reversed);

Result<std::shared_ptr<const LoopSizes>> loop_sizes(const LoopPlan& plan, std::vector<ArgType> reads,
                                                    std::vector<ArgType> results);

// Allocates nothing in an iteration whose values have the sizes of the one before, except that the memory of scan
// outputs doubles as they grow where the number of iterations is not known. Errors: kInvalid beyond the allowed
// iterations, kMemory where scan outputs or carried values grow beyond the memory, a scan output that changes its
// shape, those of the body.
Status run_loop(const LoopPlan& plan, const std::shared_ptr<const LoopSizes>& sizes,
                const runtime::RunContext& context);

}  // namespace peri::exec
