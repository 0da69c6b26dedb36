// Bisecting: which step of a program gives the first answer outside its bound.
#pragma once

#include "cli/core/model.hpp"

namespace peri::cli {

struct StepVerdict {
  size_t step = 0;
  std::string name, kernel;
  bool checked = false;  // false: a step that binds dimensions or has no region
  double error = 0;      // largest |error| / bound
  std::string why;       // outside its bound: where and by how much
};

// The program without in-place results, so that what a step read is still there after it. Costs memory, changes no
// answer.
plan::Program separate_results(plan::Program program);

// REQUIRES an engine of separate_results(). Runs it once, keeps every intermediate value, and judges each step on the
// inputs it really had: its region in float64 with radii for float32 round-off. With `source`, the graph the engine was
// made of, each step's results are also held against the source's values of the same name, radii grown on the way
// there. Stops at the first step outside.
Result<std::vector<StepVerdict>> bisect(std::shared_ptr<const runtime::Engine> engine, const ir::Graph* source,
                                        std::span<const Tensor> inputs, Progress* progress);

}  // namespace peri::cli
