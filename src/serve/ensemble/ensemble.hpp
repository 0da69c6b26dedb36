// An ensemble: a graph of models whose edges are named tensors. It is checked when it is loaded (every tensor produced
// once, every input of every step present with its type, no cycle), and runs each step as soon as its inputs are
// available, through the queue of that step's model.
#pragma once

#include <functional>

#include "runtime/servable.hpp"
#include "serve/config/model_config.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

// How an ensemble's own queue takes its requests: levels of priority as its models have them, and where one of these
// has sequences, those, one request of each at a time, so that its models get them in their order.
void queue_ensemble(const ModelConfig& config, const FindModel& find, ModelOptions* options);

// Models are looked up again for each request, so that they may be replaced. `find` outlives what comes back. Errors
// name step, tensor and what was expected.
Result<std::shared_ptr<runtime::Servable>> make_ensemble(const ModelConfig& config, FindModel find);

}  // namespace peri::serve
