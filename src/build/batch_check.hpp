// Finds the batch sizes at which each row of an engine's output is bit-identical to a run of that row alone. Kernels
// are chosen by size, so this is tested: on seeded inputs, at the tuned sizes and two others.
#pragma once

#include "runtime/engine_servable.hpp"

namespace peri::build {

struct BatchCheck {
  std::vector<int64_t> sizes;  // rows whose answers are identical, ascending, 1 among them; empty: no batches
  std::string note;            // for people: what was found
};

// Whether every input and output has the same named dimension as its first axis; its name, or why not.
Result<std::string> batch_symbol(const plan::Program& program);

// Sizes of batches worth trying, up to `most`, those wanted first.
std::vector<int64_t> sizes_to_try(int64_t most, const std::vector<int64_t>& wanted);

// `wanted`: sizes that matter most; others up to `most` follow, as long as `seconds` allow.
BatchCheck check_batches(runtime::EngineServable& model, int64_t most, const std::vector<int64_t>& wanted,
                         double seconds);

}  // namespace peri::build
