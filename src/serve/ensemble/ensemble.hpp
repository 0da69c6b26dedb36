// An ensemble: a graph of models whose edges are named tensors. It is checked when it is loaded, and has trouble when
// its models are gone or replaced by ones that do not fit; it runs each step as soon as its inputs are available,
// through the queue of that step's model.
#pragma once

#include <functional>

#include "runtime/servable.hpp"
#include "serve/config/model_config.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

// The policy of an ensemble's own queue: the priority levels of its models, and, where one of them has sequences, those
// too, with one request of each sequence at a time, so that its models receive them in order.
void queue_ensemble(const ModelConfig& config, const FindModel& find, ModelOptions* options);

// The steps of a step's model, if it is an ensemble, served or only found.
using StepsOf = std::function<std::vector<EnsembleStep>(const EnsembleStep&)>;

// kRefused: a step's model is the ensemble of this name, or one that uses it.
Status check_no_circle(const std::string& name, const ModelConfig& config, const StepsOf& steps_of);

// Models are looked up for each request, so that they may be replaced. REQUIRES: `find` outlives the result. Errors,
// with step, tensor and expectation: kInvalid; kRefused: a step's model is not served.
Result<std::shared_ptr<runtime::Servable>> make_ensemble(const ModelConfig& config, FindModel find);

}  // namespace peri::serve
