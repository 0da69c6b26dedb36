// Finds the batch sizes at which each row of an engine's output is bit-identical to a run of that row alone. Kernels
// are chosen by size, so this is tested: on seeded inputs, at the tuned sizes and two others.
#pragma once

#include "runtime/engine_servable.hpp"

namespace peri::build {

struct BatchCheck {
  std::vector<int64_t> sizes;  // numbers of rows with identical results, ascending, including 1; empty: no batches
  std::string note;            // the finding, for reports
};

// The named dimension that is the first axis of every input and output; an error says why there is none.
Result<std::string> batch_symbol(const plan::Program& program);

// Batch sizes to test, up to `most`, those in `wanted` first.
std::vector<int64_t> sizes_to_try(int64_t most, const std::vector<int64_t>& wanted);

// `wanted`: sizes to test first; others up to `most` follow while `seconds` last.
BatchCheck check_batches(runtime::EngineServable& model, int64_t most, const std::vector<int64_t>& wanted,
                         double seconds);

}  // namespace peri::build
