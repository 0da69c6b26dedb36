// What is determined about a model before it is served: the memory it needs, and a request with its response.
#pragma once

#include "runtime/engine_servable.hpp"
#include "serve/memory/ram.hpp"
#include "serve/repository/repository.hpp"

namespace peri::build {

// Weights, and the arenas that `instances` sessions plan for the largest batch; 0: a size hangs on data. Exact but for
// what kernels pack and keep beside it.
int64_t planned_bytes(const plan::Program& program, int instances, int64_t max_batch);
// kMemory with the numbers where `bytes` are more than may be had.
Status check_fits(int64_t bytes, const serve::Ram& ram);
// A seeded question of one row, where the model has rows, and its answer. Errors: why there is none, as where the model
// does not answer alike twice.
Result<serve::Canary> make_canary(runtime::EngineServable& model);

}  // namespace peri::build
