// Time of each step of a session.
#pragma once

#include <vector>

#include "runtime/engine.hpp"

namespace peri::bench {

// Runs the session for about `seconds` and adds each step's time in ms to (*step_ms)[step]; returns the number of runs.
// The hook's own cost (two clock readings a step, about 50 ns) is included.
Result<int64_t> time_steps(runtime::Session& session, std::span<const Tensor> inputs, double seconds,
                           std::vector<double>* step_ms);

}  // namespace peri::bench
