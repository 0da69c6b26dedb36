// What is determined about a model before it is served: the memory it needs, and a request with its response.
#pragma once

#include "runtime/engine_servable.hpp"
#include "serve/memory/ram.hpp"
#include "serve/repository/repository.hpp"

namespace peri::build {

// Weights, and the arenas that `instances` sessions plan for the largest batch; 0: a size depends on data. Exact except
// for packed weights.
int64_t planned_bytes(const plan::Program& program, int instances, int64_t max_batch);
// kMemory with the numbers where `bytes` exceed the available memory.
Status check_fits(int64_t bytes, const serve::Ram& ram);
// A seeded request of one row, if the model has rows, and its response. Errors: why there is none, such as a model
// whose results are not reproducible.
Result<serve::Canary> make_canary(runtime::EngineServable& model);

}  // namespace peri::build
